"""Ranked data: `RankingData`, its file formats, and generators of data.

- `ranking`: `RankingData`, documents grouped by query and checked once
- `validation`: checks of the arrays that `RankingData` is given
- `formats`: `load`, and the registry of file formats
- `letor`: reading and writing of LETOR text files
- `table_files`: reading of Parquet, Arrow and CSV files
- `store`: folders of arrays that are mapped into memory
- `trec`, `pairs`, `topic_files`: judgements and runs, preferences, documents with topics
- `word_table`: text tables as codes and numbers, without a string for each word
- `source`: text files and folders of them, plain or compressed
- `frames`, `columns`, `matching`: data frames as arrays, roles of columns, features by name
- `ids`: ids of queries and documents, and the texts of all rows in one buffer
- `generate`: generated data whose true weights are known
"""
