# SPDX-License-Identifier: MIT
"""Tests that need PyTorch: the controllers, and a search that is interrupted and resumed. Run by make bench-rrsc."""
import pathlib
import tempfile
import unittest

import torch

import fixture
import reward
import search
import space as spaces
from controller import Controllers, Settings

MLP = spaces.SPACES["mlp"]
SHORT = Settings(restarts=2, evaluations=60, start=20)


def judge_of(**rules):
    table = fixture.synthetic(MLP)
    return reward.Judge(MLP, table, reward.rules_of(MLP, table, **rules))


class ControllersTest(unittest.TestCase):
    def test_draws_are_legal_and_their_probabilities_sum_to_one(self):
        settings = Settings(restarts=1, start=4000, floor=0.0)
        control = Controllers([2, 3], [5], settings)
        choices, logs, _ = control.draw()
        seen = {}
        for point, log in zip(choices[0].tolist(), logs[0].sum(1).tolist()):
            seen[tuple(point)] = (seen.get(tuple(point), (0, 0))[0] + 1, log)
        self.assertEqual(sorted(seen), [(a, b) for a in range(2) for b in range(3)])
        self.assertAlmostEqual(sum(torch.tensor(log).exp().item() for _, log in seen.values()), 1, places=4)
        for count, log in seen.values():    # drawn as often as said: 6 standard deviations of 4000 draws
            self.assertAlmostEqual(count / 4000, torch.tensor(log).exp().item(), delta=0.04)

    def test_learns_what_is_rewarded_and_never_stops_exploring(self):
        control = Controllers([4, 4], [1, 2], Settings(restarts=1, rounds=1.0, floor=0.2))
        for _ in range(control.settings.updates):
            choices, logs, entropies = control.draw()
            rewards = (choices == 2).float().sum(2)
            control.learn(logs, entropies, rewards, torch.ones_like(rewards))
        choices, logs, _ = control.draw()
        self.assertGreater((choices == 2).float().mean().item(), 0.7)
        self.assertGreaterEqual(logs.min().item(), torch.tensor(0.2 / 4).log().item() - 1e-4)

    def test_rewards_that_are_not_known_do_not_count(self):
        a, b = (Controllers([4, 4], [1], Settings(restarts=1)) for _ in range(2))
        for control, other in ((a, 0.0), (b, 1e6)):
            _, logs, entropies = control.draw()
            known = torch.zeros(logs.shape[:2])
            known[:, ::2] = 1
            self.assertEqual(logs.shape[1], 100)
            rewards = torch.arange(known.numel()).reshape(known.shape) * known + other * (1 - known)
            control.learn(logs, entropies, rewards, known)
        for name, w in a.weights.items():
            self.assertTrue(torch.equal(w, b.weights[name]), name)

    def test_a_search_does_not_depend_on_those_beside_it(self):
        alone = Controllers(MLP.options, [4], SHORT).draw()[0]
        beside = Controllers(MLP.options, [3, 4], SHORT).draw()[0]
        self.assertTrue(torch.equal(alone, beside[2:]))
        self.assertFalse(torch.equal(beside[:2], beside[2:]))

    def test_settings_that_make_no_sense(self):
        for bad in ({"restarts": 0}, {"floor": 1.0}, {"elite": 101}, {"rounds": 0.0}, {"refined": 1.0}):
            with self.assertRaises(ValueError):
                Settings(**bad)


class SearchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name) / "state"

    def test_never_more_evaluations_than_allowed(self):
        most = []

        def progress(update, _, memory):
            most.append([len(k) for k in memory.known])
            self.assertLessEqual(max(most[-1]), SHORT.allowed(update - 1))

        search.rl(judge_of(), [1, 2], SHORT, progress=progress)
        self.assertEqual(len(most), SHORT.updates)
        self.assertLessEqual(max(most[-1]), 42)      # the rest is for neighbours

    def test_neighbours_differ_in_one_decision(self):
        around = list(search.neighbours(MLP, (0,) * len(MLP.options)))
        self.assertEqual(len(around), sum(MLP.options) - len(MLP.options))
        self.assertEqual(len(set(around)), len(around))
        for point in around:
            self.assertEqual(sum(map(bool, point)), 1)

    def test_neighbours_lead_to_the_best_point(self):
        judge = judge_of()
        memory, best = search.Memory(judge, 1), reward.exhaustive(judge)[0]
        beside = next(p for p in search.neighbours(MLP, best) if judge.of(p).rank < judge.of(best).rank)
        memory.evaluate(0, beside)
        search.refine(memory, 0, 200)
        self.assertEqual(len(memory.known[0]), 200)
        self.assertEqual(memory.best_of([0]), best)

    def test_cut_off_anywhere_it_finds_the_same(self):
        judge = judge_of()
        whole = search.rl(judge, [1, 2], SHORT)
        for cut in (1, 7, SHORT.updates - 1):
            self.assertIsNone(search.rl(judge, [1, 2], SHORT, self.state, stop=cut))
            self.assertEqual(search.rl(judge, [1, 2], SHORT, self.state), whole)
            self.assertEqual(search.rl(judge, [1, 2], SHORT, self.state), whole)    # it was at the end
            self.state.unlink()

    def test_a_state_of_another_search_is_refused(self):
        search.rl(judge_of(), [1], SHORT, self.state, stop=1)
        for judge, seeds, settings in ((judge_of(penalty=0.3), [1], SHORT), (judge_of(), [2], SHORT),
                                       (judge_of(), [1], Settings(restarts=2, evaluations=70, start=20))):
            with self.assertRaisesRegex(ValueError, "of another search"):
                search.rl(judge, seeds, settings, self.state)

    def test_a_state_that_is_none_is_refused(self):
        search.rl(judge_of(), [1], SHORT, self.state, stop=1)
        for data in (b"", b"no state", self.state.read_bytes()[:-100]):
            self.state.write_bytes(data)
            with self.assertRaisesRegex(ValueError, "no state of a search"):
                search.rl(judge_of(), [1], SHORT, self.state)

    def test_nothing_feasible_is_said(self):
        judge = judge_of(accuracy=(99.0, 99.0, 99.0))
        best = search.rl(judge, [1], SHORT)[0]
        self.assertIn("infeasible", search.report(judge, best))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
