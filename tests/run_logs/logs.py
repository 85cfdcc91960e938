"""Logs in the documented grammars, written by us; numbers of public runs are from Argonne's AI testbed documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

BEGAN = datetime(2024, 3, 1, 12, 0, 0)

# (time stamp, step, Rate, GlobalRate); BERT-large at 128 tokens, 1,024 samples a step.
BERT_171 = (
    ("2023-03-24 23:02:07,002", 100, 7657.52, 7657.51),
    ("2023-03-24 23:02:18,125", 200, 8586.60, 8360.66),
    ("2023-03-24 23:02:35,940", 300, 6883.56, 7260.71),
    ("2023-03-24 23:02:48,484", 400, 7651.26, 7467.06),
    ("2023-03-24 23:03:06,117", 500, 6544.95, 7063.35),
    ("2023-03-24 23:03:18,876", 600, 7433.17, 7207.33),
    ("2023-03-24 23:03:36,654", 700, 6429.21, 6957.56),
    ("2023-03-24 23:03:49,268", 800, 7442.51, 7084.15),
    ("2023-03-24 23:04:07,361", 900, 6372.77, 6891.42),
    ("2023-03-24 23:04:19,437", 1000, 7637.03, 7022.97),
)
BERT_18 = (
    ("2023-05-17 18:15:11,548", 100, 4597.49, 4597.49),
    ("2023-05-17 18:15:23,067", 200, 7173.00, 6060.68),
    ("2023-05-17 18:15:41,547", 300, 6193.85, 5876.98),
    ("2023-05-17 18:15:54,118", 400, 7365.06, 6316.84),
    ("2023-05-17 18:16:12,430", 500, 6301.21, 6157.22),
    ("2023-05-17 18:16:25,177", 600, 7340.44, 6406.58),
    ("2023-05-17 18:16:43,315", 700, 6323.57, 6285.55),
    ("2023-05-17 18:16:56,110", 800, 7331.29, 6458.82),
    ("2023-05-17 18:17:14,564", 900, 6261.77, 6343.22),
    ("2023-05-17 18:17:26,977", 1000, 7454.38, 6493.27),
)
BERT_203 = (
    ("2023-11-29 20:08:14,365", 100, 4088.28, 4088.26),
    ("2023-11-29 20:08:39,820", 200, 4048.91, 4055.21),
    ("2023-11-29 20:09:05,356", 300, 4025.61, 4040.05),
    ("2023-11-29 20:09:30,626", 400, 4041.61, 4043.10),
    ("2023-11-29 20:09:56,022", 500, 4035.92, 4040.90),
    ("2023-11-29 20:10:21,410", 600, 4034.41, 4039.65),
    ("2023-11-29 20:10:46,690", 700, 4044.10, 4041.20),
)
# GPT-J on two systems, 130 samples a step.
GPTJ_171 = (
    ("2023-03-16 16:15:52,360", 100, 27.82, 27.82),
    ("2023-03-16 16:23:45,144", 200, 27.62, 27.66),
    ("2023-03-16 16:31:38,130", 300, 27.54, 27.60),
    ("2023-03-16 16:39:30,581", 400, 27.53, 27.58),
    ("2023-03-16 16:47:23,284", 500, 27.51, 27.56),
    ("2023-03-16 16:55:16,032", 600, 27.50, 27.55),
    ("2023-03-16 17:03:09,369", 700, 27.48, 27.54),
    ("2023-03-16 17:11:02,115", 800, 27.49, 27.53),
    ("2023-03-16 17:18:55,027", 900, 27.49, 27.53),
    ("2023-03-16 17:26:47,287", 1000, 27.51, 27.53),
)
# A vision transformer, 2,850 samples a step: its workers took an hour to prime, and its steps come in bursts.
VIT_26 = (
    ("2025-10-13 16:13:05,769", 10, 3323.47, 923.35),
    ("2025-10-13 16:13:37,520", 20, 4452.76, 910.30),
    ("2025-10-13 16:14:20,867", 30, 3553.07, 806.87),
    ("2025-10-13 16:14:53,830", 40, 3840.05, 820.58),
    ("2025-10-13 16:15:35,551", 50, 3422.33, 788.82),
    ("2025-10-13 16:16:11,445", 60, 3656.17, 789.69),
    ("2025-10-13 16:16:49,841", 70, 3559.48, 782.54),
    ("2025-10-13 16:17:26,243", 80, 3577.28, 782.59),
    ("2025-10-13 16:18:04,947", 90, 3509.24, 777.17),
    ("2025-10-13 16:18:40,674", 100, 3464.33, 779.18),
    ("2025-10-13 16:19:18,509", 110, 3563.66, 776.75),
    ("2025-10-13 16:19:54,432", 120, 3391.11, 778.10),
    ("2025-10-13 16:20:33,376", 130, 3353.04, 774.34),
    ("2025-10-13 16:21:08,460", 140, 3460.46, 776.93),
    ("2025-10-13 16:21:47,396", 150, 3506.94, 773.76),
    ("2025-10-13 16:22:22,052", 160, 3682.37, 776.63),
    ("2025-10-13 16:23:01,143", 170, 3508.37, 773.67),
    ("2025-10-13 16:23:35,510", 180, 3724.78, 776.56),
    ("2025-10-13 16:24:15,017", 190, 3495.95, 773.45),
    ("2025-10-13 16:24:49,239", 200, 3690.48, 776.21),
)
VIT_CHECKPOINTS = {
    100: ("2025-10-13 16:18:40,675", "2025-10-13 16:18:50,127"),
    200: ("2025-10-13 16:24:49,240", "2025-10-13 16:24:58,829"),
}
# A diffusion transformer, 1,168 samples a step: a checkpoint of three minutes, then the steps that the wafer made meanwhile.
DIT_26 = (
    ("2025-10-13 21:43:35,288", 20, 869.57, 879.99),
    ("2025-10-13 21:44:02,004", 40, 864.86, 877.18),
    ("2025-10-13 21:44:28,712", 60, 874.51, 876.33),
    ("2025-10-13 21:44:55,371", 80, 867.69, 876.31),
    ("2025-10-13 21:45:21,917", 100, 877.39, 877.04),
    ("2025-10-13 21:45:48,642", 120, 873.47, 876.55),
    ("2025-10-13 21:46:15,303", 140, 871.60, 876.50),
    ("2025-10-13 21:46:42,043", 160, 867.43, 876.13),
    ("2025-10-13 21:47:08,596", 180, 869.68, 876.53),
    ("2025-10-13 21:47:35,271", 200, 865.66, 876.45),
    ("2025-10-13 21:50:40,262", 220, 5970.06, 569.10),
    ("2025-10-13 21:50:44,011", 240, 6114.62, 615.72),
    ("2025-10-13 21:50:47,714", 260, 5957.36, 661.65),
    ("2025-10-13 21:50:51,424", 280, 6048.57, 706.83),
    ("2025-10-13 21:50:55,165", 300, 6167.70, 751.25),
    ("2025-10-13 21:50:58,951", 320, 6109.52, 794.88),
    ("2025-10-13 21:51:02,716", 340, 6088.11, 837.85),
    ("2025-10-13 21:51:09,072", 360, 1369.79, 875.40),
    ("2025-10-13 21:51:35,842", 380, 870.69, 875.25),
    ("2025-10-13 21:52:02,497", 400, 896.97, 875.31),
)
DIT_CHECKPOINTS = {200: ("2025-10-13 21:47:35,276", "2025-10-13 21:50:36,478")}
# (step, steps per second): FC-MNIST of 2021, 256 samples a step, 25,600,000 in 211.863 s.
MNIST_2021 = ((1, 1.19), (100, 89.75), (200, 167.0), (99700, 471.25), (99800, 471.75), (99900, 472.0))
# BERT-large in TensorFlow, release 1.8: results arrive in batches, so the fifth hundred came at once. 256,000 samples in 42.299 s.
BERT_TF_18 = (
    (100, 27.49),
    (200, 21.77),
    (300, 20.38),
    (400, 19.78),
    (500, 24.65),
    (600, 23.27),
    (700, 22.37),
    (800, 21.75),
    (900, 21.31),
    (1000, 23.64),
)

Row = tuple[str, int, float, float]


def stamp(seconds: float) -> str:
    """A time stamp so many seconds after noon."""
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


def train_line(at: str, step: int, rate: float, whole: float, *, loss: str = "1.5", device: str = "CSX", tail: str = "") -> str:
    return (
        f"{at} INFO:   | Train Device={device}, Step={step}, Loss={loss}, Rate={rate:.2f} samples/sec, "
        f"GlobalRate={whole:.2f} samples/sec{tail}"
    )


def eval_line(at: str, batch: int, rate: float) -> str:
    return (
        f"{at} INFO:   | Eval Device=CSX, GlobalStep=7, Batch={batch}, Loss=1.0, Rate={rate:.2f} samples/sec, "
        f"GlobalRate={rate:.2f} samples/sec"
    )


def checkpoint_lines(begin: str, end: str, step: int) -> list[str]:
    return [f"{begin} INFO:   Saving checkpoint at step {step}", f"{end} INFO:   Saved checkpoint run/checkpoint_{step}.mdl"]


def public_log(
    rows: Sequence[Row], samples: int, checkpoints: dict[int, tuple[str, str]] | None = None, tail: str = ""
) -> list[str]:
    """A public run: its step lines, its checkpoints, and the line that ends it."""
    lines = []
    for at, step, rate, whole in rows:
        lines.append(train_line(at, step, rate, whole, tail=tail))
        if checkpoints and step in checkpoints:
            lines += checkpoint_lines(*checkpoints[step], step)
    return [*lines, f"{rows[-1][0]} INFO:   Processed {samples} training sample(s) in 9999.5 seconds."]


def estimator_log(rows: Iterable[tuple[int, float]]) -> list[str]:
    return [f"INFO:tensorflow:global step {step}: loss = 0.25 ({rate} steps/sec)" for step, rate in rows]


def smoothed_log(gaps_s: Sequence[float], *, steps: int = 10, batch: int = 64, first_s: float = 5.0) -> list[str]:
    """A run that logs every `steps` steps, `gaps_s` apart, with the Rate and GlobalRate that follow."""
    at, rate, lines = first_s, batch * steps / first_s, []
    lines.append(train_line(stamp(at), steps, rate, batch * steps / at))
    for place, gap in enumerate(gaps_s, start=2):
        at += gap
        rate = 0.6 * batch * steps / gap + 0.4 * rate
        lines.append(train_line(stamp(at), steps * place, rate, batch * steps * place / at))
    return lines


def write(path: Path, lines: Iterable[str], ending: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + ending for line in lines).encode("utf-8", "surrogateescape"))
    return path
