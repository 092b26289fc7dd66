"""Role action embeddings: which nodes of a graph play the same role?"""
