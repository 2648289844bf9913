"""Ranked data: from text, from a store, or generated.

- `ranking`: `RankingData`, documents grouped by query, validated once
- `text`: `TextColumn`, the comments of all documents in one buffer
- `letor`: LETOR text files, read and written
- `store`: folders of arrays that are mapped into memory
- `generate`: data whose truth is known
- `scores`: files of scores, one per document
"""
