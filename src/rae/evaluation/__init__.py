"""The paper's evidence again: tables as data, probes, floors, kept lines, and the report made from them."""
