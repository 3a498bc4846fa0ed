/* SPDX-License-Identifier: MIT */
/*
 * The events at a job boundary: every order of events that implementations could treat differently.
 * docs/device.md 4.3 defines the words and shows the table; tests/unit/test_boundary.c runs each
 * row on the model. B(id, other slot, before, events, then, why).
 *
 * before: idle (nothing is CURRENT), cold (not yet reset), eN>=1 (min_level), e2bad (its descriptor
 * is damaged). then: state that is not named is unchanged: not frozen, not held, highest level,
 * nothing pending.
 */
#ifndef RVL_SIM_BOUNDARY_H
#define RVL_SIM_BOUNDARY_H

#define RVL_BOUNDARY(B)                                                                            \
	/* CURRENT ends */                                                                         \
	B(E1, empty, "", "end", "e1=DONE done=1", "")                                              \
	B(E2, filled, "", "end", "e1=DONE e2=run done=1", "NEXT is promoted")                      \
	B(E3, filling, "", "end", "e1=DONE e2=none done=1", "the seq is missing")                  \
	B(E4, filling, "", "end, seq2", "e1=DONE e2=run done=1", "")                               \
	B(E5, filling, "", "seq2 + end", "e1=DONE e2=run done=1", "")                              \
	B(E6, filled, "", "end, end", "e1=DONE e2=DONE done=2", "")                                \
	B(E7, filled, "e2bad", "end", "e1=DONE e2=bad done=2 frozen=2",                            \
	  "no status; FROZEN_FAULT has the code")                                                  \
	B(E8, filled, "", "end, seq3, end", "e1=DONE e2=DONE e3=run done=2",                       \
	  "the slot of 1 is free")                                                                 \
	/* CURRENT faults */                                                                       \
	B(F1, empty, "", "fault", "e1=FAULT done=1 frozen=1", "")                                  \
	B(F2, filled, "", "fault", "e1=FAULT e2=wait done=1 frozen=1", "nothing is promoted")      \
	B(F3, filling, "", "fault", "e1=FAULT e2=none done=1 frozen=1", "")                        \
	B(F4, filling, "", "fault, seq2", "e1=FAULT e2=wait done=1 frozen=1", "")                  \
	B(F5, empty, "", "fault, resume1", "e1=FAULT done=1", "")                                  \
	B(F6, filled, "", "fault, resume1", "e1=FAULT e2=run done=1", "")                          \
	B(F7, filling, "", "fault, resume1, seq2", "e1=FAULT e2=run done=1", "")                   \
	B(F8, filled, "", "fault, resume2", "e1=FAULT e2=wait done=1 frozen=1",                    \
	  "not the frozen seq")                                                                    \
	B(F9, filled, "", "fault, abort1", "e1=FAULT e2=wait done=1 frozen=1 res=NONE",            \
	  "already retired")                                                                       \
	B(F10, filled, "", "fault, abort2", "e1=FAULT e2=wait done=1 frozen=1 res=NEXT", "")       \
	B(F11, filled, "", "fault, abort2, resume1", "e1=FAULT e2=ABORTED done=2 res=NEXT", "")    \
	B(F12, filled, "", "fault, l0", "e1=FAULT e2=wait done=1 frozen=1 level=0",                \
	  "frozen is a boundary")                                                                  \
	B(F13, filled, "e2>=1", "fault, l0", "e1=FAULT e2=wait done=1 frozen=1 pending=level",     \
	  "deferred")                                                                              \
	B(F14, filled, "e2>=1", "fault, l0, resume1", "e1=FAULT e2=run done=1 pending=level", "")  \
	B(F15, filled, "e2>=1", "fault, l0, resume1, end", "e1=FAULT e2=DONE done=2 level=0", "")  \
	B(F16, filled, "e2>=1", "fault, l0!, resume1", "e1=FAULT e2=NO_VARIANT done=2 level=0",    \
	  "no freeze")                                                                             \
	B(F17, filled, "", "fault, hold", "e1=FAULT e2=wait done=1 frozen=1 held=1", "")           \
	B(F18, filled, "", "fault, hold, resume1", "e1=FAULT e2=wait done=1 held=1", "")           \
	B(F19, filled, "", "fault, hold, resume1, release", "e1=FAULT e2=run done=1", "")          \
	B(F20, empty, "", "fault, reset", "e1=FAULT done=4", "")                                   \
	B(F21, filled, "", "fault, reset", "e1=FAULT e2=none done=4", "discarded")                 \
	B(F22, filling, "", "fault, reset, seq2", "e1=FAULT e2=none done=4",                       \
	  "not the seq after base")                                                                \
	B(F23, filled, "", "resume1", "e1=run e2=wait done=0", "not frozen: no effect")            \
	/* ABORT of CURRENT */                                                                     \
	B(A1, empty, "", "abort1", "e1=ABORTED done=1 frozen=1 res=CURRENT", "")                   \
	B(A2, filled, "", "abort1", "e1=ABORTED e2=wait done=1 frozen=1 res=CURRENT", "")          \
	B(A3, filling, "", "abort1", "e1=ABORTED e2=none done=1 frozen=1 res=CURRENT", "")         \
	B(A4, filled, "", "abort1, resume1", "e1=ABORTED e2=run done=1 res=CURRENT", "")           \
	B(A5, filled, "", "abort1 + resume1", "e1=ABORTED e2=run done=1 res=CURRENT",              \
	  "ABORT before RESUME")                                                                   \
	B(A6, filled, "", "abort1, abort2, resume1", "e1=ABORTED e2=ABORTED done=2 res=NEXT", "")  \
	B(A7, filled, "", "end + abort1", "e1=ABORTED e2=wait done=1 frozen=1 res=CURRENT",        \
	  "not retired yet")                                                                       \
	B(A8, filled, "", "end, abort1", "e1=DONE e2=run done=1 res=NONE", "retired")              \
	B(A9, empty, "", "end, abort1", "e1=DONE done=1 res=NONE", "")                             \
	B(A10, filled, "", "fault + abort1", "e1=FAULT e2=wait done=1 frozen=1 res=CURRENT",       \
	  "it faulted before the ABORT")                                                           \
	B(A11, filled, "", "abort1 + l0",                                                          \
	  "e1=ABORTED e2=wait done=1 frozen=1 level=0 res=CURRENT", "")                            \
	B(A12, filled, "e2>=1", "abort1 + l0",                                                     \
	  "e1=ABORTED e2=wait done=1 frozen=1 pending=level res=CURRENT", "")                      \
	B(A13, filled, "", "abort1 + hold",                                                        \
	  "e1=ABORTED e2=wait done=1 frozen=1 held=1 res=CURRENT", "")                             \
	B(A14, filled, "", "abort1 + reset", "e1=none e2=none done=4 res=NONE",                    \
	  "RESET before ABORT")                                                                    \
	B(A15, filling, "", "abort1, resume1, seq2", "e1=ABORTED e2=run done=1 res=CURRENT", "")   \
	/* ABORT of NEXT */                                                                        \
	B(N1, empty, "", "abort2", "e1=run done=0 res=NONE", "not in the queue")                   \
	B(N2, filled, "", "abort2", "e1=run e2=wait done=0 res=NEXT", "acknowledged at once")      \
	B(N3, filling, "", "abort2", "e1=run e2=none done=0 res=NONE", "")                         \
	B(N4, filling, "", "abort2, seq2, end", "e1=DONE e2=run done=1 res=NONE",                  \
	  "not queued yet: no effect")                                                             \
	B(N5, filling, "", "seq2 + abort2, end", "e1=DONE e2=ABORTED done=2 res=NEXT", "")         \
	B(N6, filled, "", "abort2, end", "e1=DONE e2=ABORTED done=2 res=NEXT",                     \
	  "when it would be promoted; no freeze")                                                  \
	B(N7, filled, "", "abort2 + end", "e1=DONE e2=ABORTED done=2 res=NEXT",                    \
	  "ABORT before retirement")                                                               \
	B(N8, filled, "", "abort2, fault", "e1=FAULT e2=wait done=1 frozen=1 res=NEXT",            \
	  "it would be promoted after RESUME")                                                     \
	B(N9, filled, "", "abort2, fault, resume1", "e1=FAULT e2=ABORTED done=2 res=NEXT", "")     \
	B(N10, filled, "e2>=1", "abort2, l0, end", "e1=DONE e2=ABORTED done=2 level=0 res=NEXT",   \
	  "defers nothing")                                                                        \
	B(N11, filled, "", "abort2, hold, end", "e1=DONE e2=wait done=1 held=1 res=NEXT", "")      \
	B(N12, filled, "", "abort2, hold, end, release", "e1=DONE e2=ABORTED done=2 res=NEXT",     \
	  "")                                                                                      \
	B(N13, filled, "", "abort2, reset", "e1=none e2=none done=4 res=NEXT", "")                 \
	B(N14, filled, "e2bad", "abort2, end", "e1=DONE e2=bad done=2 res=NEXT",                   \
	  "no status, no freeze")                                                                  \
	B(N15, filled, "", "abort3", "e1=run e2=wait done=0 res=NONE", "")                         \
	B(N16, filled, "", "abort2, end, seq3", "e1=DONE e2=ABORTED e3=run done=2 res=NEXT", "")   \
	/* LEVEL */                                                                                \
	B(L1, empty, "", "l0", "e1=run done=0 pending=level", "not a boundary")                    \
	B(L2, empty, "", "l0, end", "e1=DONE done=1 level=0", "")                                  \
	B(L3, filled, "", "l0, end", "e1=DONE e2=run done=1 level=0", "level, then variant")       \
	B(L4, filled, "", "l0 + end", "e1=DONE e2=run done=1 level=0", "")                         \
	B(L5, filling, "", "l0, end", "e1=DONE e2=none done=1 level=0", "")                        \
	B(L6, filling, "", "l0, end, seq2", "e1=DONE e2=run done=1 level=0", "")                   \
	B(L7, filled, "e2>=1", "l0, end", "e1=DONE e2=run done=1 pending=level", "deferred")       \
	B(L8, filled, "e2>=1", "l0, end, end", "e1=DONE e2=DONE done=2 level=0", "")               \
	B(L9, filling, "e2>=1", "l0, end, seq2", "e1=DONE e2=NO_VARIANT done=2 level=0",           \
	  "queued after the level changed")                                                        \
	B(L10, filling, "e2>=1", "l0, seq2 + end", "e1=DONE e2=run done=1 pending=level", "")      \
	B(L11, filled, "e2>=1", "l0!, end", "e1=DONE e2=NO_VARIANT done=2 level=0",                \
	  "forced, no freeze")                                                                     \
	B(L12, filling, "e2>=1", "l0!, end, seq2", "e1=DONE e2=NO_VARIANT done=2 level=0", "")     \
	B(L13, filled, "e2>=1", "l0, l1, end", "e1=DONE e2=run done=1 level=1",                    \
	  "only the newest request")                                                               \
	B(L14, filled, "e2>=1", "l0, end, l0!, end", "e1=DONE e2=DONE done=2 level=0",             \
	  "e2 keeps its level")                                                                    \
	B(L15, filled, "e2>=1", "l0, l0!, end", "e1=DONE e2=NO_VARIANT done=2 level=0", "")        \
	B(L16, filled, "", "l9, end", "e1=DONE e2=run done=1", "no such level: no effect")         \
	B(L17, empty, "e1>=1", "l0, end", "e1=DONE done=1 level=0", "")                            \
	B(L18, empty, "idle", "l0", "done=0 level=0", "idle is a boundary")                        \
	B(L19, empty, "idle e1>=1", "l0 + seq1", "e1=run done=0 pending=level", "")                \
	B(L20, empty, "idle e1>=1", "l0, seq1", "e1=NO_VARIANT done=1 level=0", "")                \
	B(L21, filled, "e2>=1", "l0, abort1, abort2",                                              \
	  "e1=ABORTED e2=wait done=1 frozen=1 level=0 res=NEXT",                                   \
	  "an aborted entry defers nothing")                                                       \
	B(L22, filled, "e2>=1", "l0, reset", "e1=none e2=none done=4 level=0",                     \
	  "the queue is empty")                                                                    \
	B(L23, filled, "e2bad", "l0, end", "e1=DONE e2=bad done=2 frozen=2 level=0", "")           \
	/* HOLD */                                                                                 \
	B(H1, empty, "", "hold", "e1=run done=0 pending=hold", "CURRENT ends first")               \
	B(H2, empty, "", "hold, end", "e1=DONE done=1 held=1", "")                                 \
	B(H3, filled, "", "hold, end", "e1=DONE e2=wait done=1 held=1", "")                        \
	B(H4, filling, "", "hold, end", "e1=DONE e2=none done=1 held=1", "")                       \
	B(H5, filling, "", "hold, end, seq2", "e1=DONE e2=wait done=1 held=1", "")                 \
	B(H6, filled, "", "hold, end, release", "e1=DONE e2=run done=1", "")                       \
	B(H7, filled, "", "hold, release, end", "e1=DONE e2=run done=1", "never held")             \
	B(H8, filled, "", "hold, end, l0, release", "e1=DONE e2=run done=1 level=0", "")           \
	B(H9, filled, "e2>=1", "hold, end, l0", "e1=DONE e2=wait done=1 held=1 pending=level",     \
	  "deferred")                                                                              \
	B(H10, filled, "e2>=1", "hold, end, l0!, release", "e1=DONE e2=NO_VARIANT done=2 level=0", \
	  "")                                                                                      \
	B(H11, filled, "", "hold, fault", "e1=FAULT e2=wait done=1 frozen=1 held=1", "")           \
	B(H12, filled, "", "hold, fault, release", "e1=FAULT e2=wait done=1 frozen=1", "")         \
	B(H13, filled, "", "hold, abort1",                                                         \
	  "e1=ABORTED e2=wait done=1 frozen=1 held=1 res=CURRENT", "")                             \
	B(H14, filled, "", "hold, end, abort2", "e1=DONE e2=wait done=1 held=1 res=NEXT", "")      \
	B(H15, filled, "", "hold, end, abort2, release", "e1=DONE e2=ABORTED done=2 res=NEXT",     \
	  "")                                                                                      \
	B(H16, filled, "", "hold, reset", "e1=none e2=none done=4 held=1", "RESET ended CURRENT")  \
	B(H17, filled, "", "hold, end, reset, seq5", "e1=DONE e2=none e5=wait done=4 held=1",      \
	  "RESET keeps HOLD")                                                                      \
	B(H18, empty, "idle", "hold, seq1", "e1=wait done=0 held=1", "")                           \
	B(H19, empty, "idle", "hold + seq1", "e1=wait done=0 held=1", "HOLD before promotion")     \
	B(H20, empty, "idle", "hold, seq1, seq2, abort2, abort1, release",                         \
	  "e1=ABORTED e2=ABORTED done=2 res=NEXT", "both are queued")                              \
	/* RESET */                                                                                \
	B(R1, empty, "", "reset", "e1=none done=4", "no status, nothing retires")                  \
	B(R2, filled, "", "reset", "e1=none e2=none done=4", "")                                   \
	B(R3, filling, "", "reset, seq2", "e1=none e2=none done=4", "")                            \
	B(R4, filled, "", "end + reset", "e1=none e2=none done=4", "RESET before retirement")      \
	B(R5, filled, "", "end, reset", "e1=DONE e2=none done=4", "")                              \
	B(R6, filled, "", "reset, seq5", "e1=none e2=none e5=run done=4", "")                      \
	B(R7, filled, "", "reset + reset, seq5", "e1=none e2=none e5=run done=4", "")              \
	B(R8, filled, "", "reset, abort1", "e1=none e2=none done=4 res=NONE", "")                  \
	B(R9, filled, "", "l0 + reset + hold", "e1=none e2=none done=4 level=0 held=1",            \
	  "then HOLD and LEVEL")                                                                   \
	B(R10, empty, "cold", "seq1", "e1=none done=0", "no slot is read before the first RESET")  \
	B(R11, empty, "cold", "hold, l0", "done=0 held=1 level=0",                                 \
	  "served before the first RESET")                                                         \
	B(R12, empty, "idle", "reset, seq5", "e5=run done=4", "")

#endif
