"""Which texts an English encoder does not know, though they are in Latin letters: told by the little words of
European languages. A text with few such words passes for English."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+")
_LOOK = 300  # characters of a text that are looked at
_FEWEST = 2  # words of another language, and more than twice as many as of English
_ENGLISH_WORDS = """
the of is are were to and for at by from what which who how when where why does did has have it this that be or not
if many much you they we with there his her their its can will would should been than then into about a an in on as
was do i my your me no come per con so
"""
_OF_NAMES = (
    "da de del della der di dos du el la las le les los van vom von zu zum zur"  # Leonardo da Vinci
)
_OTHER_WORDS = """
der das und ist nicht ein eine einen einem einer eines welche welcher welches welchen welchem wie viele wird werden
mit auf für dem den des im zu zum zur bei sich auch wer wann warum womit sind haben wenn oder von vom nach über
unter bevor damit wurde
het een van en welke hoeveel wat met op voor niet zijn wordt waar zich
le la les un une est et dans que qui quel quelle quels quelles pour sur avec du au aux ce cette combien pourquoi ses
sont ou à où
el los las una y qué cuál cuáles cuántos cuántas por del se cómo dónde para sus
il lo gli uno è di che quale quali quanti quante della delle dei degli nel nella si
os um uma em de qual quantos quantas da na das são não mais ao como onde
och är det som på av för med ett vilken vilket hur många og er til hvilken hvor mange
jest w z jaki jaka jakie nie który która które czy
bir ve bu ne kaç hangi için ile
yang apa berapa dengan ini itu untuk dari
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_OTHERS = frozenset(_OTHER_WORDS.split()) - _ENGLISH - frozenset(_OF_NAMES.split())


def is_foreign(text: str) -> bool:
    """Is this clearly in another language than English, as far as its little words tell?"""
    words = _WORD.findall(text[:_LOOK].lower())
    ours, theirs = (sum(word in known for word in words) for known in (_ENGLISH, _OTHERS))
    return theirs >= _FEWEST and theirs > 2 * ours
