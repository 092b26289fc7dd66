"""The public files: address, size and SHA-256 checksum of each.

A file without an address (`url=None`) is one that is published in another archive (folds, one-file text
forms, the web graph); the user puts it into a data folder.
"""

from __future__ import annotations

from dataclasses import dataclass

PLANETOID = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
STRUC2VEC = "https://raw.githubusercontent.com/leoribeiro/struc2vec/master/graph/"
MUSAE = "https://raw.githubusercontent.com/benedekrozemberczki/MUSAE/master/input/"
HETEROPHILOUS = "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data/"
RONE = "https://raw.githubusercontent.com/cspjiao/RONE/bd2b2a5a445e1bed29b0de3cf15a7a7062d07cfb/dataset/clf/"
TU = "https://www.chrsmrrs.com/graphkerneldatasets/"
SNAP = "https://snap.stanford.edu/data/"


@dataclass(frozen=True)
class Source:
    """One public file."""

    url: str | None
    size: int
    sha256: str


# fmt: off
_CHECKSUMS = (
    ("IMDB-BINARY/10fold_idx.tar.gz", 2868, "63291d8d7c9c8d499a5a7224daafc38adf1b8cc6fc957a9454608e766c34266f"),
    ("IMDB-BINARY/IMDB-BINARY.zip", 581861, "d4e052793e9e5f91079abf6569ec490f6878e4cf8416305d8746b5636b6d0c3f"),
    ("IMDB-BINARY/IMDBBINARY.txt", 581321, "1068c698677c07c04f3ad56fc4a175cb2161523c840abfdaf50e101ecc30504f"),
    ("IMDB-MULTI/10fold_idx.tar.gz", 4303, "c5c269a2a2f487846d1da51168ea7172097a1a9ebf9277b4af7dc0fb6064d741"),
    ("IMDB-MULTI/IMDB-MULTI.zip", 588310, "292dd877c6d7880608bce6136be5df537a0f82ca6583d77e72d2505818e87a9f"),
    ("IMDB-MULTI/IMDBMULTI.txt", 572161, "f4cc1b32112303bf1b16a8351df8b8073978fdead823775fbe79e60cf94e7009"),
    ("MUTAG/10fold_idx.tar.gz", 872, "03c62344b609bee01f8dba887c56da7a19a02abef257982fc53ede73f06e4f34"),
    ("MUTAG/MUTAG.txt", 32377, "5897dae243f6c773aab54ec99e86551c3b1e8601acef254714073042c632d30e"),
    ("MUTAG/MUTAG.zip", 24244, "38e572babf0207a56b13ebfeb5ce8a1fc9c9a4ba6a48a2aad0894418845c6cc0"),
    ("PROTEINS/10fold_idx.tar.gz", 3162, "f6fa0b142bcbe70b1a3bf5a37b57d430d6f8cf2b7585b6a638b6fce36af5c7b9"),
    ("PROTEINS/PROTEINS.txt", 642021, "ed0730f9bf9da68aa6a8c80f2f2b6ecea5d05791ca254c709f3efab3b45d937b"),
    ("PROTEINS/PROTEINS.zip", 458204, "dde9a6fe2cdac336d3b622bfa53663269304d10c01033c86083847a21ae3d4ba"),
    ("REDDIT-BINARY/10fold_idx.tar.gz", 5631, "64c3f2f6b8b8239700e4eb6fdfea0078242dbaf0f4fb3cd3cc81a432e308fd72"),
    ("REDDIT-BINARY/REDDITBINARY.txt.gz", 3214278, "850e6bef1f270c6e2a2719f6db6b48d244c9c46fdb86c818a8b476e9be621002"),
    ("ca-AstroPh/ca-AstroPh.txt.gz", 1453526, "cd2e8734b37b8aac0a54ce3e6f31074692364b8fc73121ef5cf30e221bbd97bd"),
    ("citeseer/ind.citeseer.allx", 595021, "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668"),
    ("citeseer/ind.citeseer.ally", 55623, "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95"),
    ("citeseer/ind.citeseer.graph", 61987, "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7"),
    ("citeseer/ind.citeseer.test.index", 5000, "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4"),
    ("citeseer/ind.citeseer.tx", 260321, "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21"),
    ("citeseer/ind.citeseer.ty", 24135, "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce"),
    ("citeseer/ind.citeseer.x", 31087, "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6"),
    ("citeseer/ind.citeseer.y", 3014, "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924"),
    ("cora/ind.cora.allx", 257305, "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
    ("cora/ind.cora.ally", 47959, "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
    ("cora/ind.cora.graph", 59847, "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
    ("cora/ind.cora.test.index", 5000, "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"),
    ("cora/ind.cora.tx", 148025, "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
    ("cora/ind.cora.ty", 28135, "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
    ("cora/ind.cora.x", 22119, "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab"),
    ("cora/ind.cora.y", 4054, "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1"),
    ("facebook-pages/facebook.json", 2088766, "ea870537646a93642a0008d38aa9bfeff02018070ba97b1f3f469d9622626436"),
    ("facebook-pages/facebook_edges.csv", 1882610, "7c50d8f02a75cc0829577814a1fc14535164daa38d79c3612340c9e9cdbd4022"),
    ("facebook-pages/facebook_target.csv", 1177912, "7bd96eafea3c2ca40f44bfa9e73642194696c21e38c7b29ed409c32ad14075cd"),
    ("heterophilous/chameleon_filtered.npz", 58924, "bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5"),
    ("heterophilous/squirrel_filtered.npz", 208215, "f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7"),
    ("pubmed/ind.pubmed.allx", 7578385, "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
    ("pubmed/ind.pubmed.ally", 224739, "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
    ("pubmed/ind.pubmed.graph", 471808, "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
    ("pubmed/ind.pubmed.test.index", 6000, "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"),
    ("pubmed/ind.pubmed.tx", 405505, "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
    ("pubmed/ind.pubmed.ty", 12135, "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
    ("pubmed/ind.pubmed.x", 23172, "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33"),
    ("pubmed/ind.pubmed.y", 854, "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3"),
    ("rone/actor.edge", 287055, "6e0c00c724627310d6f6241e338ed0c33b18688dc122e50913b5ca825f44b5a6"),
    ("rone/actor.lbl", 56202, "c372db5ae0ab2769dccf992f6a0af1677d60e601f67aa084f1c1208e511f4904"),
    ("struc2vec/barbell.edgelist", 515, "38d573075ab379224b53067d42e359cdbf5b77c614a51021a9aee5052a0c9fb1"),
    ("struc2vec/brazil-airports.edgelist", 6047, "896b7bd460ad2da9160888d99bc9099ffe8ed7de3e410833889ea393831bcaa7"),
    ("struc2vec/europe-airports.edgelist", 40007, "bd202178d0d1253c15bd3c9a22cc2a25f630244bbef9060bc30adbf0a5e130f6"),
    ("struc2vec/facebook348.edgelist", 51066, "cfa841401154dda35d1d6504d72b97f7292e257c7df8d5573f73dfcafc00ec12"),
    ("struc2vec/karate-mirrored.edgelist", 869, "b947a38e6a6e43f8ef9fbb634120fd9342d30c24113a0da5cb69c8dc12456fa1"),
    ("struc2vec/labels-brazil-airports.txt", 687, "8f9d19f10192fbaeb91dfb46dd7eae0fef28bfe1272d41ab96a4494a0d06785f"),
    ("struc2vec/labels-europe-airports.txt", 2295, "92bace031cc02937ac9629d6c69387458e5d5016a7dab98490fbf33e392cec4e"),
    ("struc2vec/labels-usa-airports.txt", 9531, "d4062ff3b3a67c3ae72b581bb68228433223e35d6f0b2d41844d197ad3772195"),
    ("struc2vec/usa-airports.edgelist", 163188, "c73fec3eef27ed6d6ef4d8dfa7fd1604b959601a38d399eeaa1f87e8d8d58fc0"),
    ("web-Google/web_Google.txt.gz", 21160505, "159c525082c7a14ae15f69960490f45515d1ba84ea82127256b5d88309df0744"),
)
# fmt: on


_HOMES = {  # where the files of a folder are published, or of a path where its files are in several places
    "struc2vec": STRUC2VEC,
    "heterophilous": HETEROPHILOUS,
    "rone": RONE,
    "ca-AstroPh": SNAP,
    "facebook-pages/facebook.json": MUSAE + "features/",
    "facebook-pages/facebook_edges.csv": MUSAE + "edges/",
    "facebook-pages/facebook_target.csv": MUSAE + "target/",
}


def _url(path: str) -> str | None:
    folder, name = path.split("/")
    if name.startswith("ind."):
        return PLANETOID + name
    if name.endswith(".zip"):
        return TU + name
    home = _HOMES.get(path) or _HOMES.get(folder)
    return home and home + name


SOURCES: dict[str, Source] = {path: Source(_url(path), size, sha256) for path, size, sha256 in _CHECKSUMS}
"""Every file by its path in RAE_DATA or the cache folder."""
