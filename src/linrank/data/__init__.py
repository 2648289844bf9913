"""Ranked data: `RankingData`, its file formats, and generators of data.

- `ranking`: `RankingData`, documents grouped by query and checked once
- `formats`: `load`, and the registry of file formats
- `letor`: reading and writing of LETOR text files
- `tables`: reading of tables; `parquet`, `arrow` and `csv_files` open their files
- `parts`: folders of files
- `names`: files with the names of features
- `frames`: data frames as arrays
- `store`: folders of arrays that are mapped into memory
- `generate`: generated data whose true weights are known
- `scores`: files of scores, one per document
- `checks`: checks of the arrays that `RankingData` is given
- `columns`: checks of the columns of tables
- `keys`: hashes of features, which identify queries by content
- `text`: `TextColumn`, the comments of all documents in one buffer
"""
