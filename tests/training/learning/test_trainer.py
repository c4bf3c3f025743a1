from pathlib import Path

import pytest
import torch
from small import SMALL

from diptych_model import PairConfig, PairNetwork, save_checkpoint
from diptych_training.data.archives import Archives
from diptych_training.errors import DataError
from diptych_training.learning.batch import Step, draw_step
from diptych_training.learning.distributed import Processes
from diptych_training.learning.trainer import Learner
from diptych_training.recipe import Recipe, recipe_from
from diptych_training.tasks import Source


def learner_of(recipe: Recipe, *, std: float | None = None) -> Learner:
    torch.manual_seed(0)
    network = PairNetwork(recipe.network)
    if std:
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=std)
    return Learner(recipe, network, Processes())


@pytest.fixture(scope="module")
def drawn(archives: Path) -> list[Step]:
    source = Source(Archives(44, archives), 32, 0, torch.device("cpu"))
    tasks = [settings.open(source) for settings in recipe_from(SMALL).tasks]
    return [draw_step(tasks, number, seed=0) for number in range(40)]


def test_learning_lowers_the_loss(drawn: list[Step]) -> None:
    stage = SMALL["stages"][2] | {"steps": 400}
    learner = learner_of(recipe_from(SMALL | {"stages": [stage]}))
    losses = [learner.learn(step, learner.recipe.stages[0])["embedding"] for step in drawn]
    assert sum(losses[-10:]) < 0.95 * sum(losses[:10])


def test_relating_pairs_in_chunks_gives_the_gradient_of_one_batch(drawn: list[Step]) -> None:
    gradients = []
    for chunk in (4, 1000):
        recipe = recipe_from(SMALL | {"learning": SMALL["learning"] | {"chunk": chunk}})
        learner = learner_of(recipe, std=0.2)
        learner._differentiate_step(drawn[0], recipe.stages[-1])
        gradients.append([p.grad for p in learner.network.parameters() if p.grad is not None])
    assert len(gradients[0]) > 30
    for few, many in zip(*gradients, strict=True):
        torch.testing.assert_close(few, many, rtol=1e-3, atol=1e-5)


def test_without_relating_only_the_panel_part_learns_and_a_frozen_stem_stays_as_it_is(drawn: list[Step]) -> None:
    recipe = recipe_from(SMALL)
    learner = learner_of(recipe)
    kept = {name: value.clone() for name, value in learner.network.pair.state_dict().items()}
    assert "pair" not in learner.learn(drawn[0], recipe.stages[0])
    assert all(torch.equal(value, kept[name]) for name, value in learner.network.pair.state_dict().items())
    before = {name: value.clone() for name, value in learner.network.state_dict().items()}
    learner.learn(drawn[0], recipe.stages[1])
    changed = {name for name, value in learner.network.state_dict().items() if not torch.equal(value, before[name])}
    assert not any(name.startswith("panel.encoder") for name in changed)
    assert any(name.startswith("panel.tokens") for name in changed)
    assert any(name.startswith("pair") for name in changed)
    learner.learn(drawn[1], recipe.stages[2])
    assert not torch.equal(learner.network.state_dict()["panel.encoder.0.0.weight"], before["panel.encoder.0.0.weight"])


def test_of_one_question_alone_only_its_own_rows_learn(drawn: list[Step]) -> None:
    network = SMALL["network"] | {"questions": ["copy", "thing"], "parts": 2, "correspondence": True, "embedding": 8}
    stages = [SMALL["stages"][-1] | {"only": "thing"}]
    recipe = recipe_from(SMALL | {"network": network, "stages": stages})
    learner = learner_of(recipe, std=0.2)
    before = {name: value.clone() for name, value in learner.network.state_dict().items()}
    for step in drawn[:2]:
        learner.learn(step, recipe.stages[0])
    after = learner.network.state_dict()
    learnt = {
        name: torch.where((value != before[name]).reshape(len(value), -1).any(1))[0].tolist()
        for name, value in after.items()
        if not torch.equal(value, before[name])
    }
    expected = {"panel.embedding": [4, 5, 6, 7], "pair.correspondence.prior": [1], "pair.head.2": [1]}
    assert learnt == {f"{name}.{of}": rows for name, rows in expected.items() for of in ("weight", "bias")}


def test_the_best_matches_teach_the_embedding_where_the_recipe_says_so(drawn: list[Step]) -> None:
    taught = {}
    for teacher in ("pair", "matches"):
        recipe = recipe_from(SMALL | {"learning": SMALL["learning"] | {"teacher": teacher}})
        losses = learner_of(recipe, std=0.2).learn(drawn[0], recipe.stages[-1])
        taught[teacher] = losses.pop("distillation"), losses
    assert taught["pair"][0] != taught["matches"][0]
    assert taught["pair"][1] == taught["matches"][1]


def test_another_network_teaches_pair_scorer_and_embedding_and_sees_the_same_pictures_in_its_own_size(
    archives: Path, tmp_path: Path
) -> None:
    torch.manual_seed(3)
    teacher = PairNetwork(PairConfig.from_dict(SMALL["network"] | {"pixels": 48}))
    for parameter in teacher.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_checkpoint(teacher, tmp_path / "teacher")
    learning = SMALL["learning"] | {"teacher": str(tmp_path / "teacher"), "distil": 3.0}
    recipe = recipe_from(SMALL | {"learning": learning, "stages": [SMALL["stages"][-1] | {"steps": 60}]})
    learner, (stage,) = learner_of(recipe), recipe.stages
    assert learner.drawn_pixels(stage) == 48
    source = Source(Archives(66, archives), 48, 0, torch.device("cpu"))
    tasks = [settings.open(source) for settings in recipe.tasks]
    steps = [draw_step(tasks, number, seed=0) for number in range(2)]
    kept = {name: value.clone() for name, value in learner.teacher.state_dict().items()}  # pyright: ignore[reportOptionalMemberAccess]
    losses = [learner.learn(step, stage)["taught"] for step in steps * 20]
    assert sum(losses[-4:]) < 0.7 * sum(losses[:4])
    for name, value in learner.teacher.state_dict().items():  # pyright: ignore[reportOptionalMemberAccess]
        assert torch.equal(value, kept[name])
    # What it is taught are the teacher's answers to the pairs that it relates.
    chosen = torch.tensor([[2, 0, 5]] * len(steps[0].match))
    lesson = learner._teacher_logits(steps[0], chosen)
    tokens = teacher.eval().encode(steps[0].pictures)[0]
    references = tokens[len(chosen) :]
    torch.testing.assert_close(lesson[1], teacher.relate(tokens[[1, 1, 1]], references[[2, 0, 5]]))  # pyright: ignore[reportOptionalSubscript]


def test_a_teacher_answers_what_its_pupil_is_asked(tmp_path: Path) -> None:
    save_checkpoint(PairNetwork(PairConfig.from_dict(SMALL["network"])), tmp_path / "one")
    learning = SMALL["learning"] | {"teacher": str(tmp_path / "one")}
    network = SMALL["network"] | {"questions": ["copy", "thing"]}
    with pytest.raises(DataError, match="answers one question, and the network is asked copy and thing"):
        learner_of(recipe_from(SMALL | {"learning": learning, "network": network}))
    with pytest.raises(ValueError, match=r"teacher must be one of pair, matches, or a model: .*'nobody'"):
        recipe_from(SMALL | {"learning": SMALL["learning"] | {"teacher": "nobody"}})
    with pytest.raises(ValueError, match=r"only must be one of the questions.*got 'thing' and parts = 1"):
        recipe_from(SMALL | {"stages": [SMALL["stages"][-1] | {"only": "thing"}]})


@pytest.mark.parametrize("relation", ["late", "siamese"])
def test_the_controls_learn_by_the_same_steps(drawn: list[Step], relation: str) -> None:
    learning = SMALL["learning"] | {"link": 0.0}
    recipe = recipe_from(SMALL | {"network": SMALL["network"] | {"relation": relation}, "learning": learning})
    learner = learner_of(recipe)
    before = {name: value.clone() for name, value in learner.network.named_parameters()}
    losses = [learner.learn(step, recipe.stages[-1])["pair"] for step in drawn[:3]]
    assert all(0 < loss < 20 for loss in losses)
    still = {name for name, value in learner.network.named_parameters() if torch.equal(value, before[name])}
    assert not still
