"""Reproduction of the paper: tables, probes, floors, the ledger of results and the reports generated from it."""
