# SPDX-License-Identifier: MIT
"""Tests that need no PyTorch: space, table, reward, evaluator, exhaustive search. Run by make check."""
import json
import os
import pathlib
import random
import stat
import sys
import tempfile
import unittest

import accuracies
import costs
import evaluate
import fixture
import reward
import search
import shapes
import space as spaces
import table as tables

HERE = pathlib.Path(__file__).resolve().parent
MLP = spaces.SPACES["mlp"]


class SpaceTest(unittest.TestCase):
    def test_sizes(self):
        for space in spaces.SPACES.values():
            self.assertEqual(space.size, 40960)
            self.assertEqual(len(space.backbones()), 16)
            self.assertIn(space.reference, space.backbones())

    def test_index_is_the_place_among_the_points(self):
        for space in spaces.SPACES.values():
            for at, point in enumerate(space.points()):
                if at % 997 == 0 or at == space.size - 1:
                    self.assertEqual(space.index(point), at)
                    self.assertEqual(space.point(at), point)

    def test_every_configuration_is_a_point_of_its_own(self):
        self.assertEqual(len({MLP.config(p) for p in MLP.points()}), MLP.size)

    def test_words(self):
        self.assertEqual(str(MLP.config((3, 0, 1, 6, 5, 2))), "784-200-32-10 and-loop 64/45/20")

    def test_what_is_no_point_is_refused_by_name(self):
        for point, why in (((0,) * 5, "5 choices"), ((0, 0, 5, 0, 0, 0), "of circuit"), ((0, 0, 0, 0, 0, -1), "length.l3"),
                           ((0, 0, 0, 8, 0, 0), "length.l6"), ((0, 0.0, 0, 0, 0, 0), "hidden2")):
            with self.assertRaisesRegex(ValueError, why):
                MLP.config(point)
        for index in (-1, MLP.size):
            with self.assertRaises(ValueError):
                MLP.point(index)


class TableTest(unittest.TestCase):
    MADE = fixture.accuracies(MLP), fixture.costs(MLP)

    @staticmethod
    def edit(text, kind, field, value):
        """The text with a field of the first record of a kind changed, and that line's number."""
        lines = text.split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith(kind + "\t"))
        fields = lines[at].split("\t")
        fields[field] = value
        lines[at] = "\t".join(fields)
        return "\n".join(lines), at + 1

    def refused(self, made, text, why):
        with self.assertRaisesRegex(tables.TableError, why):
            tables.parse(type(made), text, "t")

    def test_what_is_written_is_read(self):
        for made in self.MADE:
            self.assertEqual(tables.parse(type(made), tables.text(made)), made)

    def test_bad_fields_are_named_with_their_line(self):
        answers, costs = self.MADE
        for made, kind, field, value, why in (
                (costs, "board", 2, "f" * 63, "no SHA-256"), (answers, "data", 1, "F" * 64, "no SHA-256"),
                (answers, "floor", 1, "nan", "out of range"), (costs, "late", 1, "-1", "out of range"),
                (costs, "level", 3, "0", "out of range"), (costs, "level", 3, "1e9", "no number"),
                (answers, "backbone", 3, "many", "no number"), (answers, "cell", 1, "784-1-1-10", "no backbone"),
                (answers, "cell", 4, "-1", "out of range"), (answers, "cell", 5, "1001", "1001 right of 1000"),
                (costs, "cell", 4, "0", "out of range"), (costs, "cell", 5, "inf", "out of range"),
                (costs, "cell", 7, "0", "out of range"), (answers, "end", 1, "639", "640 cells, the end says 639")):
            text, at = self.edit(tables.text(made), kind, field, value)
            self.refused(made, text, f"t:{at}: .*{why}")

    def test_records_out_of_place(self):
        for made in self.MADE:
            text = tables.text(made)
            lines = text.split("\n")
            self.refused(made, text.replace("\t1\n", "\t2\n", 1), "t:1: .*version 1")
            self.refused(made, "\n".join(lines[:1] + lines[2:]), "t:2: the name of the space")
            self.refused(made, "\n".join(lines[:-2]), "cut off")
            self.refused(made, text + "more", "behind the end")
            self.refused(made, text.replace("\tand-bin\t13\t", "\tand-bin\t17\t", 1), "a second cell")
            self.refused(made, text.replace("cell\t", "cel\t", 1), '"cel" is no record')
            self.refused(made, text.replace("cell\t784-64-32-10\t", "cell\t", 1), "fields")
            self.refused(made, "", "t:1")
        levels = "\n".join(line for line in tables.text(self.MADE[1]).split("\n") if not line.startswith("level\t"))
        self.refused(self.MADE[1], levels, "before the first level")
        self.refused(self.MADE[0], tables.text(self.MADE[1]), "not a rivulet-rrsc-accuracy table")

    def test_a_cell_that_one_of_the_two_lacks_is_named(self):
        for lacking in range(2):
            parts = fixture.accuracies(MLP), fixture.costs(MLP)
            del parts[lacking].cells["784-200-64-10", "ugemm", 33]
            with self.assertRaisesRegex(tables.TableError, "784-200-64-10 ugemm 33 in the table of " + ("accuracy", "cost")[lacking]):
                tables.Table(MLP, *parts)

    def test_a_cell_that_is_on_time_must_be_measured(self):
        answers = fixture.accuracies(MLP)
        answers.cells["784-200-32-10", "and-bin", 96] = tables.Answers(0, 0)
        tables.Table(MLP, answers, self.MADE[1])    # this one is late
        answers.cells["784-200-32-10", "and-bin", 64] = tables.Answers(0, 0)
        with self.assertRaisesRegex(tables.TableError, "784-200-32-10 and-bin 64 is on time"):
            tables.Table(MLP, answers, self.MADE[1])

    def test_tables_of_another_space_or_of_other_levels(self):
        with self.assertRaisesRegex(tables.TableError, "a table of mlp"):
            tables.Table(spaces.SPACES["lenet"], *self.MADE)
        other = fixture.costs(MLP)
        other.levels = other.levels[:2]
        with self.assertRaisesRegex(tables.TableError, "levels"):
            tables.Table(MLP, self.MADE[0], other)

    def test_cut_or_garbled_anywhere_it_is_refused_or_sound(self):
        """For any bytes the parser succeeds or raises TableError."""
        rng = random.Random(3)
        for i in range(300):
            made = self.MADE[i % 2]
            data = list(tables.text(made))
            at = rng.randrange(len(data))
            if rng.random() < 0.5:
                data = data[:at]
            else:
                data[at] = chr(rng.randrange(1, 128))
            try:
                tables.parse(type(made), "".join(data))
            except tables.TableError:
                pass

    def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t"
            tables.replace(path, b"old")
            with self.assertRaises(TypeError):
                tables.replace(path, "no bytes")
            self.assertEqual([p.name for p in path.parent.iterdir()], ["t"])
            self.assertEqual(path.read_bytes(), b"old")


class RewardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = fixture.synthetic(MLP)

    def judge(self, **other):
        return reward.Judge(MLP, self.table, reward.rules_of(MLP, self.table, **other))

    def test_by_hand(self):
        judge = self.judge()
        config = spaces.Config("784-64-32-10", "and-bin", (64, 45, 45))
        o, cells = judge.judge(config), [self.table.cells["784-64-32-10", "and-bin", n] for n in (64, 45, 45)]
        runs = sum(1 / 3 / c.joule[i] for i, c in enumerate(cells))
        cheapest = self.table.cells["784-64-32-10", "and-bin", 13].joule
        best = sum(1 / 3 / j for j in cheapest)
        self.assertTrue(o.feasible)
        self.assertAlmostEqual(o.runs, runs)
        self.assertAlmostEqual(o.reward, sum((c.accuracy - 60) / 30 for c in cells) / 3 + runs / best)
        self.assertAlmostEqual(o.latency[2], cells[2].cycles / 8e8)

    def test_energy_scales_runs_by_share(self):
        a = self.judge(shares=(0.8, 0.1, 0.1)).judge(spaces.Config("784-64-32-10", "and-bin", (64, 64, 13)))
        b = self.judge(shares=(0.1, 0.1, 0.8)).judge(spaces.Config("784-64-32-10", "and-bin", (64, 64, 13)))
        self.assertLess(a.runs, b.runs)

    def test_late_is_said_before_inaccurate(self):
        o = self.judge().judge(spaces.Config("784-200-32-10", "ugemm", (64, 64, 13)))
        self.assertFalse(o.feasible)
        self.assertIn("ms at l4", o.why)
        o = self.judge().judge(spaces.Config("784-200-32-10", "ugemm", (64, 45, 33)))
        self.assertIn("% at l6", o.why)

    def test_infeasible_goes_last_whatever_its_number(self):
        """Correction (a): an infeasible point with all lengths shortest has -1 + 1 = 0, more than a feasible point below Al."""
        judge = self.judge(upper=100.0, lower=99.0, penalty=0.0)
        bad = judge.judge(spaces.Config("784-64-32-10", "and-bin", (13, 13, 13)))
        good = judge.judge(spaces.Config("784-64-32-10", "and-bin", (64, 45, 45)))
        self.assertFalse(bad.feasible)
        self.assertAlmostEqual(bad.reward, 0)
        self.assertTrue(good.feasible)
        self.assertLess(good.reward, bad.reward)
        self.assertGreater(good.rank, bad.rank)

    def test_penalty_only_beyond_epsilon(self):
        """Correction (b): a tie, or a difference within the noise, costs no penalty."""
        name, circuit = "784-64-32-10", "and-bin"
        def cell(n): return self.table.cells[name, circuit, n].accuracy
        self.assertGreater(cell(25), cell(20) + 0.25)
        self.assertEqual(self.cost(0.25, (64, 64, 64)), 0)
        gap = cell(64) - cell(45)
        self.assertGreater(gap, 0)
        self.assertAlmostEqual(self.cost(gap / 2, (45, 64, 25)), 0.2)
        self.assertAlmostEqual(self.cost(gap * 2, (45, 64, 25)), 0)

    def cost(self, epsilon, lengths):
        config = spaces.Config("784-64-32-10", "and-bin", lengths)
        with_it, without = self.judge(epsilon=epsilon), self.judge(epsilon=epsilon, penalty=0.0)
        self.assertTrue(with_it.judge(config).feasible)
        return without.judge(config).reward - with_it.judge(config).reward

    def test_rules_that_make_no_sense(self):
        for other, why in (({"upper": 60.0}, "above Al"), ({"shares": (1, 0, 0)}, "share"), ({"constraint": 0.0}, "constraint"),
                           ({"accuracy": (50.0, 50.0, 50.0)}, "not measured on all"),
                           ({"accuracy": (87.0,)}, "share"), ({"penalty": -1.0}, "not below")):
            with self.assertRaisesRegex(ValueError, why):
                self.judge(**other)


class ExhaustiveTest(unittest.TestCase):
    def test_against_plain_loops(self):
        table = fixture.synthetic(MLP)
        judge = reward.Judge(MLP, table, reward.rules_of(MLP, table))
        point, outcome, ranks, feasible = reward.exhaustive(judge)
        best = max((judge.judge(spaces.Config(b, c, (x, y, z))).rank, (b, c, x, y, z)) for b in MLP.backbones()
                   for c in spaces.CIRCUITS for x in spaces.LENGTHS for y in spaces.LENGTHS for z in spaces.LENGTHS)
        self.assertEqual(outcome.rank, best[0])
        self.assertEqual(judge.of(point), outcome)
        self.assertEqual(ranks[MLP.index(point)], outcome.rank)
        self.assertEqual(sum(f for f, _ in ranks), feasible)

    def test_nothing_feasible(self):
        table = fixture.synthetic(MLP)
        judge = reward.Judge(MLP, table, reward.rules_of(MLP, table, accuracy=(99.0, 99.0, 99.0)))
        _, outcome, _, feasible = reward.exhaustive(judge)
        self.assertEqual(feasible, 0)
        self.assertFalse(outcome.feasible)
        self.assertTrue(outcome.why)

    def test_random_search_is_seeded_and_never_better(self):
        table = fixture.synthetic(MLP)
        judge = reward.Judge(MLP, table, reward.rules_of(MLP, table))
        best = reward.exhaustive(judge)[1]
        a, b = search.at_random(judge, [1, 2], 500), search.at_random(judge, [2, 1], 500)
        self.assertEqual(a, b[::-1])
        self.assertTrue(all(judge.of(p).rank <= best.rank for p in a))
        self.assertEqual(search.at_random(judge, [1], 10 ** 6), [reward.exhaustive(judge)[0]])


def answer(words):
    """Results of a simulated tool."""
    def of(name):
        return words[words.index(name) + 1]
    if words[1] == "eval":
        n, share = int(of("--count")), {"and-bin": 0.9, "and-loop": 0.69, "and-sep": 0.3}.get(of("--circuit"), 0.8)
        results = [{"circuit": of("--circuit"), "length": int(k), "right": int(n * share)} for k in of("--length").split(",")]
        said = {"examples": n, "macs": 200 if "784-200" in words[2] else 100, "results": [{"circuit": "int8", "length": 0, "right": n}] + results}
    else:
        cycles = 1000 * int(of("--length")) * (2 if "784-200" in words[2] else 1)
        said = {"explain": {"levels": [{"hz": 1000 * (k + 1), "cycles": cycles, "seconds": cycles / 1000 / (k + 1),
                                        "joule": 1e-9 * cycles * (k + 1)} for k in range(6)]}}
    return json.dumps(said).encode()


class EvaluatorTest(unittest.TestCase):
    """The evaluator's side of the table."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("tool", "images", "labels", *(f"{b}.onnx" for b in MLP.backbones())):
            (self.folder / name).write_bytes(name.encode())
        self.board = self.folder / "b.board"
        self.board.write_text("".join(f"sc_{c.replace('-', '_')}_{w} = {i}\n" for i, c in enumerate(spaces.CIRCUITS)
                                      for w in ("mcycles", "fj")))
        self.asked = []
        self.ev = evaluate.Evaluator(self.folder / "tool", self.folder / "cache", self.folder / "images",
                                     self.folder / "labels")
        self.ev.run = lambda words: self.asked.append(words) or answer(words)

    def make(self):
        with open(os.devnull, "w", encoding="ascii") as log:
            return tables.Table(MLP, accuracies.make(self.ev, MLP, self.folder, log),
                                costs.make(self.ev, MLP, self.folder, self.board))

    def test_whole_tables_and_again_from_what_was_kept(self):
        t = self.make()
        for part in (t.accuracies, t.costs):
            self.assertEqual(tables.parse(type(part), tables.text(part)), part)
        for name, circuit, length, images in (
                ("784-64-32-10", "and-bin", 96, 2000), ("784-64-32-10", "ugemm", 13, 400),
                ("784-64-32-10", "and-loop", 13, 200),      # 69 % is more than 79 - 18, not 79 - 9
                ("784-64-32-10", "and-sep", 13, 50), ("784-200-32-10", "and-bin", 96, 0)):  # 1.5 times TC
            self.assertEqual(t.cells[name, circuit, length].images, images)
        asked = len(self.asked)
        self.assertEqual(self.make().cells, t.cells)
        self.assertEqual(len(self.asked), asked)

    def test_costs_need_no_trained_backbones(self):
        folder = self.folder / "shapes"
        shapes.write(MLP, folder)
        t = costs.make(self.ev, MLP, folder, self.board)
        self.assertEqual(t.cells, self.make().costs.cells)

    def test_another_program_is_asked_anew(self):
        model = self.folder / "784-64-32-10.onnx"
        self.ev.right(model, "and-bin", [64], 50)
        self.ev.right(model, "and-bin", [64], 50)
        self.assertEqual(len(self.asked), 1)
        self.ev.program += b"changed"
        self.ev.right(model, "and-bin", [64], 50)
        self.assertEqual(len(self.asked), 2)

    def test_a_tool_that_fails_says_why_and_nothing_is_kept(self):
        tool = self.folder / "tool"
        tool.write_text("#!/bin/sh\necho too much >&2\nexit 1\n")
        tool.chmod(stat.S_IRWXU)
        del self.ev.run
        with self.assertRaisesRegex(SystemExit, "too much"):
            self.ev.right(self.folder / "784-64-32-10.onnx", "ugemm", [64], 2000)
        self.assertEqual(list((self.folder / "cache").glob("*.json")), [])

    def test_a_board_for_each_circuit(self):
        for i, (circuit, path) in enumerate(evaluate.boards(self.board, self.folder / "boards").items()):
            self.assertEqual(circuit, spaces.CIRCUITS[i])
            self.assertIn(f"sc_and_bin_fj = {i}\n", path.read_text())

    def test_a_backbone_is_missing(self):
        (self.folder / "784-100-32-10.onnx").unlink()
        with self.assertRaisesRegex(SystemExit, "784-100-32-10.onnx is missing"):
            self.make()


class CommittedTest(unittest.TestCase):
    def test_tables_are_whole_of_this_board_and_have_an_answer(self):
        for space in spaces.SPACES.values():
            table = tables.load(space, HERE)
            self.assertEqual(table.costs.board, (evaluate.BOARD.stem, evaluate.of_file(evaluate.BOARD)))
            judge = reward.Judge(space, table, reward.rules_of(space, table))
            self.assertTrue(reward.exhaustive(judge)[1].feasible, space.name)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad} passed, {bad} failed")
    sys.exit(bool(bad))
