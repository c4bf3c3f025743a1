"""The learner: the network, its running average and the optimiser, one step at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diptych_model import PairNetwork, load_checkpoint
from diptych_model.controls import LateInteraction
from diptych_model.embedding import split_parts, weight_queries, weights_of_parts
from diptych_model.network import PairPart
from diptych_training.device import mixed_precision
from diptych_training.errors import DataError
from diptych_training.learning.batch import Step
from diptych_training.learning.distributed import Processes
from diptych_training.learning.losses import (
    choose_pairs,
    distillation_loss,
    embedding_loss,
    entropy_loss,
    level_loss,
    link_loss,
    pair_loss,
    split_questions,
    taught_loss,
)
from diptych_training.learning.pretrained import fit_projections
from diptych_training.learning.retention import Memory, retention_loss
from diptych_training.optimisation import Optimisation
from diptych_training.recipe import TEACHERS, Recipe, Stage, start_of

# What fits the cache of a core, or fills an accelerator: pairs related and pictures encoded at a time.
CHUNK = {"cpu": 24, "cuda": 4096}
ENCODED = {"cpu": 24, "cuda": 128}


class Learner(Optimisation):
    """The optimisation of a pair network: `learn` takes one step."""

    advice = "begin another run with a lower learning.rate, or with learning.bfloat16 = false"
    network: PairNetwork
    average: PairNetwork

    def __init__(self, recipe: Recipe, network: PairNetwork, processes: Processes) -> None:
        self.recipe, self.processes, self.device = recipe, processes, processes.device
        network = network.to(self.device).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        learning = recipe.learning
        super().__init__(network, learning, steps=recipe.steps, groups=_group_parameters(network, learning.decay))
        # Pictures that share no statistics are encoded a few at a time.
        shared = any(isinstance(module, nn.BatchNorm2d) for module in network.panel.encoder.modules())
        self.encoded = 0 if shared else ENCODED[self.device.type]
        self.before: list[tuple[Tensor, Tensor]] = []  # logits of the last step, and which queries had a match
        self.memory: Memory | None = None  # of the encoder before it was fine-tuned
        self.teacher = _load_teacher(recipe, self.device)

    @property
    def rate(self) -> float:
        """The learning rate of the present step, which never comes to 0."""
        return super().rate + 1e-6

    def drawn_pixels(self, stage: Stage) -> int:
        """The side of the pictures that a stage's steps are drawn with: a teacher sees its own, and what learns from it
        the same ones smaller.
        """
        return stage.pixels if self.teacher is None else max(stage.pixels, self.teacher.config.pixels)

    def begin(self, photos: Tensor, size: int) -> None:
        """Fit the projections of a panel part whose encoder has learnt elsewhere: see `fit_projections`."""
        fit_projections(self.network, photos, size)
        self.average.load_state_dict(self.network.state_dict())

    def learn(self, drawn: Step, stage: Stage) -> dict[str, float]:
        """Take one training step on the drawn examples; return its losses.

        Raises `DataError`, the weights as before, where the gradient is not finite or the memory does not suffice.
        """
        self.set_rates()
        own = question_weights(self.network, stage.only) if stage.only else []
        self.network.train().requires_grad_(not own)
        self.network.panel.encoder.requires_grad_(not stage.frozen and not own).train(not stage.frozen and not own)
        for parameter, _ in own:
            parameter.requires_grad_(True)
        try:
            losses = self._differentiate_step(drawn, stage)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            raise DataError(
                f"the memory of {self.device} does not suffice for step {self.step}: resume with a smaller "
                f"learning.chunk (now {self._chunk_size(stage)} pairs), or begin another run with a smaller fill"
            ) from None
        with _others_kept(own):
            self.update()
        return losses

    def _differentiate_step(self, drawn: Step, stage: Stage) -> dict[str, float]:
        learning = self.recipe.learning
        pictures = _seen_at(drawn.pictures.to(self.device), stage.pixels)
        tokens, embeddings = self._encode_pictures(self.network, pictures, self.encoded or len(pictures))
        count, match, rival = len(drawn.match), drawn.match.to(self.device), drawn.rival.to(self.device)
        copies = drawn.copies.to(self.device)
        cosines = self._weigh_queries(embeddings[:count].float(), copies) @ embeddings[count:].float().T
        matched = match.any(1)
        contrast = embedding_loss(cosines[matched], match[matched], rival[matched], learning.temperature)
        total, noted = contrast, {"embedding": contrast}
        if learning.entropy:
            # Of pictures that surely show other things: the references that a rival of one query matches.
            apart = _is_apart(match, rival)[matched][:, matched]
            noted["entropy"] = entropy_loss(embeddings[:count][matched].float(), apart)
            total = total + learning.entropy * noted["entropy"]
        roots, gradients = [], []
        if stage.relate:
            generator = torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + self.step)
            chosen = choose_pairs(
                cosines, match, rival, negatives=stage.negatives, easy=stage.easy, generator=generator
            )
            lesson = self._teacher_logits(drawn, chosen)
            # Tokens are cut from the graph here: pairs are related a few queries at a time, each chunk small enough for
            # the cache, and the gradients that arrive at the tokens then flow once through the panel part.
            leaf = tokens.detach().float().requires_grad_(tokens.requires_grad and not stage.only)
            logits, arrived = self._relate_pairs(leaf, chosen, drawn, lesson, self._chunk_size(stage))
            self.processes.add([logits, arrived, *self._pair_gradients()])
            if leaf.requires_grad:
                roots, gradients = [tokens], [arrived.to(tokens.dtype)]
            noted["pair"] = self._pair_loss(logits, matched, copies)
            self.before = split_questions(logits, matched, copies)
            answers = taught = self._question_logits(logits, copies)
            if lesson is not None:
                noted["taught"], taught = taught_loss(logits, lesson), self._question_logits(lesson, copies)
            elif learning.teacher == "matches":
                taught = self._match_scores(tokens, chosen, count)
            noted["distillation"] = distillation_loss(
                cosines.gather(1, chosen)[matched], taught[matched], learning.temperature
            )
            for name, rows in (("copy", copies), ("thing", ~copies)):
                if (matched & rows).any():
                    noted[f"{name}_first"] = (answers.argmax(1) == 0)[matched & rows].float().mean()
            total = total + learning.distil * noted["distillation"]
        if learning.link and drawn.linked.any() and not stage.only:
            noted["link"] = self._link_loss(drawn, tokens)
            total = total + learning.link * noted["link"]
        if learning.retain and self.memory is not None:
            noted["retain"] = self._retention_loss(self.memory, stage.pixels)
            total = total + learning.retain * noted["retain"]
        torch.autograd.backward([*roots, total], [*gradients, None])
        self.processes.mean(p.grad for p in self.network.panel.parameters() if p.grad is not None)
        return {name: float(value.detach()) for name, value in noted.items()}

    def _encode_pictures(self, network: PairNetwork, pictures: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Tokens and embeddings of pictures, `size` at a time; on CUDA always so many, for cuDNN plans every
        convolution anew for each size of a batch.
        """
        parts = []
        for part in pictures.split(size):
            filled = part
            if part.is_cuda and len(part) < size:
                more = part.new_zeros(size - len(part), *part.shape[1:])
                filled = torch.cat([part, more]).contiguous(memory_format=torch.channels_last)
            with self._mixed_precision():
                tokens, embeddings = network.encode(filled)
            parts.append((tokens[: len(part)], embeddings[: len(part)]))
        tokens, embeddings = (torch.cat(each) for each in zip(*parts, strict=True))
        return tokens, embeddings

    def _relate_pairs(
        self, leaf: Tensor, chosen: Tensor, drawn: Step, lesson: Tensor | None, chunk: int
    ) -> tuple[Tensor, Tensor]:
        """Logits (Q, 1 + K), of two questions (Q, 1 + K, 2), of this process's share, the others' zero, and the
        gradient of the tokens `leaf`; the pair part gathers its own.
        """
        questions, (count, width) = len(self.network.config.questions), chosen.shape
        matched, copies = drawn.match.any(1).to(leaf.device), drawn.copies.to(leaf.device)
        shape = chosen.shape if questions == 1 else (*chosen.shape, questions)
        answered = torch.zeros(shape, device=leaf.device)
        arrived = torch.zeros_like(leaf)
        if leaf.requires_grad:
            leaf.grad = arrived
        for rows in self.processes.share(count).to(leaf.device).split(max(1, chunk // width)):
            tokens_a = leaf[rows].repeat_interleave(width, 0)
            with self._mixed_precision():
                logits = self.network.relate(tokens_a, leaf[count + chosen[rows].flatten()])
            logits = logits.float().unflatten(0, (-1, width))
            loss = self._pair_loss(logits, matched[rows], copies[rows])
            if lesson is not None:
                loss = loss + self.recipe.learning.distil * taught_loss(logits, lesson[rows])
            (loss * (len(rows) / count)).backward()
            answered[rows] = logits.detach()
        return answered, arrived

    @torch.no_grad()
    def _teacher_logits(self, drawn: Step, chosen: Tensor) -> Tensor | None:
        """The teacher's logits of the chosen pairs, seen in its own panel size, for this network's questions:
        (Q, 1 + K) or (Q, 1 + K, 2); None where the pair scorer teaches itself.
        """
        if self.teacher is None:
            return None
        count, width = chosen.shape
        pictures = _seen_at(drawn.pictures.to(self.device), self.teacher.config.pixels)
        tokens, _ = self._encode_pictures(self.teacher, pictures, ENCODED[self.device.type])
        pairs = torch.arange(count, device=chosen.device).repeat_interleave(width), count + chosen.flatten()
        parts = zip(*(places.split(CHUNK[self.device.type]) for places in pairs), strict=True)
        with self._mixed_precision():
            logits = torch.cat([self.teacher.relate(tokens[query], tokens[found]) for query, found in parts])
        logits = logits.float().unflatten(0, (count, width))
        single = len(self.network.config.questions) == 1
        return self._question_logits(logits, drawn.copies.to(self.device)) if single else logits

    def _pair_loss(self, logits: Tensor, matched: Tensor, copies: Tensor) -> Tensor:
        learning, total = self.recipe.learning, logits.new_zeros(())
        for question, (answers, having) in enumerate(split_questions(logits, matched, copies)):
            total = total + pair_loss(answers, learning.threshold, having)
            if learning.level and self.before:
                total = total + learning.level * level_loss(answers, having, *self.before[question])
        return total

    def _weigh_queries(self, embeddings: Tensor, copies: Tensor) -> Tensor:
        """Embeddings (Q, e) of queries, weighted for the question that each is about."""
        questions = self.network.config.questions
        if self.network.config.parts == 1:
            return embeddings
        about = [weight_queries(embeddings, weights_of_parts(questions, question)) for question in questions]
        return torch.where(copies[:, None], *about)

    def _question_logits(self, logits: Tensor, copies: Tensor) -> Tensor:
        """The logits (Q, 1 + K) of the question that each query asks.

        It is *copy* for the `copies`, *thing* for the others.
        """
        return logits if logits.dim() == 2 else torch.where(copies[:, None], logits[..., 0], logits[..., 1])

    @torch.no_grad()
    def _match_scores(self, tokens: Tensor, chosen: Tensor, count: int) -> Tensor:
        """The scores of late interaction for the chosen pairs (Q, 1 + K).

        It has no parameters, so it cannot overfit.
        """
        content = self.network.panel.content_tokens(tokens).float()
        queries = content[:count].repeat_interleave(chosen.shape[1], 0)
        return LateInteraction(1).to(tokens.device)(queries, content[count + chosen.flatten()]).view(chosen.shape)

    def _retention_loss(self, memory: Memory, size: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + self.step)
        pictures, known = memory.draw_photos(size, generator)
        with self._mixed_precision():
            embeddings = self.network.encode(pictures.contiguous(memory_format=torch.channels_last))[1]
        thing = split_parts(embeddings.float(), self.network.config.parts)[:, -1]
        return retention_loss(F.normalize(thing, dim=-1), known)

    def _link_loss(self, drawn: Step, tokens: Tensor) -> Tensor:
        count, (rows,) = len(drawn.match), torch.where((drawn.linked & drawn.match.any(1)).to(self.device))
        matched = count + drawn.match.to(self.device)[rows].float().argmax(1)
        content, places = self.network.panel.content_tokens(tokens), drawn.places.to(self.device)
        return link_loss(content[rows], content[matched], places[rows], places[matched])

    def _pair_gradients(self) -> Iterator[Tensor]:
        for parameter in self.network.relation_module.parameters():
            if parameter.requires_grad:
                if parameter.grad is None:  # nothing fell to this process
                    parameter.grad = torch.zeros_like(parameter)
                yield parameter.grad

    def _chunk_size(self, stage: Stage) -> int:
        if self.recipe.learning.chunk:
            return self.recipe.learning.chunk
        # Attention costs the square of the tokens: smaller panels go through in larger chunks.
        return int(CHUNK[self.device.type] * (self.recipe.network.pixels / stage.pixels) ** 3)

    def _mixed_precision(self) -> torch.autocast:
        return mixed_precision(self.device, self.recipe.learning.bfloat16)


def _load_teacher(recipe: Recipe, device: torch.device) -> PairNetwork | None:
    """The network that `learning.teacher` names, if it names one. Raises `DataError` for one that does not answer what
    the recipe's network is asked.
    """
    if recipe.learning.teacher in TEACHERS:
        return None
    teacher, _ = load_checkpoint(start_of(recipe.learning.teacher))
    if len(recipe.network.questions) > len(teacher.config.questions):
        raise DataError(
            f"the teacher {recipe.learning.teacher!r} answers one question, and the network is asked "
            f"{' and '.join(recipe.network.questions)}: name a teacher with both"
        )
    return teacher.to(device).to(memory_format=torch.channels_last).requires_grad_(False)  # pyright: ignore[reportCallIssue]


def _seen_at(pictures: Tensor, pixels: int) -> Tensor:
    """Pictures (B, 3, S, S) at so many pixels a side, (B, 3, pixels, pixels), channels last."""
    if pictures.shape[-1] != pixels:
        pictures = F.interpolate(pictures, (pixels, pixels), mode="bilinear", antialias=True)
    return pictures.contiguous(memory_format=torch.channels_last)


def question_weights(network: PairNetwork, question: str) -> list[tuple[Tensor, slice]]:
    """The parameters that belong to one question alone, and its rows in them: its part of the embedding, and what makes
    its logit of what the trunk saw.
    """
    column, embedding = network.config.questions.index(question), network.panel.embedding
    length = embedding.out_features // embedding.parts
    part, row = slice(column * length, (column + 1) * length), slice(column, column + 1)
    found: list[tuple[Tensor, slice]] = [(embedding.weight, part), (embedding.bias, part)]
    if isinstance(network.pair, PairPart):
        lines = [cast(nn.Linear, network.pair.head[-1])]
        lines += [network.pair.correspondence.prior] if network.pair.correspondence is not None else []
        found += [(parameter, row) for line in lines for parameter in (line.weight, line.bias)]
    else:
        found += [(parameter, row) for parameter in network.pair.parameters()]
    return found


@contextmanager
def _others_kept(own: list[tuple[Tensor, slice]]) -> Iterator[None]:
    """Keep every row of these parameters but those named from the step taken within."""
    with torch.no_grad():
        before = [parameter.clone() for parameter, _ in own]
        for parameter, rows in own:
            if parameter.grad is not None:
                mine = parameter.grad[rows].clone()
                parameter.grad.zero_()[rows] = mine
    yield
    with torch.no_grad():
        for (parameter, rows), kept in zip(own, before, strict=True):
            kept[rows] = parameter[rows]
            parameter.copy_(kept)


def _is_apart(match: Tensor, rival: Tensor) -> Tensor:
    """Queries (Q, Q) of which one's match is the other's rival: what they show is surely not the same."""
    seen = match.float() @ rival.float().T > 0
    return seen | seen.T


def _group_parameters(network: PairNetwork, decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices and filters, none for norms, biases, tables, positions and segments; the encoder's at
    its own share of the `rate`.
    """
    encoder = {id(parameter) for parameter in network.panel.encoder.parameters()}
    rates = (network.config.encoder.rate, 1.0)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {(rate, d): [] for rate in rates for d in (decay, 0.0)}
    for name, parameter in network.named_parameters():
        heavy = parameter.dim() > 1 and not any(kind in name for kind in ("table", "position", "_seg"))
        rate = rates[id(parameter) not in encoder]
        groups[rate, decay if heavy else 0.0].append(parameter)
    return [
        {"params": parameters, "weight_decay": weight, "rate": rate}
        for (rate, weight), parameters in groups.items()
        if parameters
    ]
