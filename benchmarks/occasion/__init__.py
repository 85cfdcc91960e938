"""Occasions: what the same launches give at different hours, as raw slices that no model of ours has touched.

make occasion                          # measures one, three to four minutes, and appends it to occasions.jsonl.xz
python -m benchmarks.occasion report   # how far they differ within and between occasions
"""
