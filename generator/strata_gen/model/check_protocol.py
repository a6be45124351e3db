"""What protocols can get wrong beyond one file: conditions, knobs behind limits, stamps that lead nowhere."""

from __future__ import annotations

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.model.check_expr import check_relation
from strata_gen.model.knob import Affects, KnobType
from strata_gen.model.protocol import MemberType, Protocol, Word
from strata_gen.model.specset import SpecSet


def _check_limits(protocol: Protocol, specs: SpecSet, sink: Sink) -> None:
    knobs = {knob.name: knob for knob in specs.knobs}
    for limit in protocol.limits:
        if not limit.knob:
            continue
        knob = knobs.get(limit.knob)
        if knob is None:
            message = f"limit '{limit.name}' of protocol '{protocol.name}' names the knob '{limit.knob}', which is none"
            sink.error("P031", message, protocol.span, did_you_mean(limit.knob, knobs))
        elif knob.affects is not Affects.COMPILE or knob.type is not KnobType.INT:
            message = f"limit '{limit.name}' of protocol '{protocol.name}' is '{knob.name}', no compile-time integer"
            sink.error("P031", message, protocol.span, notes=(Note("the knob", knob.span),))


def _check_stamp(word: Word, blocks: dict[str, Protocol], sink: Sink) -> None:
    if word.stamp is None:
        return
    block, name = word.stamp
    fields = {member.name: member for member in blocks[block].members} if block in blocks else {}
    field = fields.get(name)
    if field is None:
        known = [f"{one.name}.{member.name}" for one in blocks.values() for member in one.members]
        message = f"word '{word.name}' is stamped with '{block}.{name}', which is no field of a block"
        sink.error("P032", message, word.span, did_you_mean(f"{block}.{name}", known))
    elif field.type is not MemberType.U32 or field.shape or field.writer is not word.writer:
        message = f"word '{word.name}' is stamped with '{block}.{name}', which is no single u32 of the same writer"
        sink.error("P032", message, word.span, notes=(Note("the field", field.span),))


def check_protocols(specs: SpecSet, sink: Sink) -> None:
    """Report repeated names, conditions that do not type-check, and limits and stamps that lead nowhere."""
    knobs = {knob.name: knob for knob in reversed(specs.knobs)}
    blocks = {protocol.name: protocol for protocol in specs.protocols if protocol.members}
    seen: dict[str, Protocol] = {}
    for protocol in sorted(specs.protocols, key=lambda protocol: protocol.span):
        first = seen.setdefault(protocol.name, protocol)
        if first is not protocol:
            note = Note("the first one", first.span)
            sink.error("P033", f"two protocols are named '{protocol.name}'", protocol.span, notes=(note,))
        _check_limits(protocol, specs, sink)
        for word in protocol.words:
            _check_stamp(word, blocks, sink)
            if word.when is not None:
                check_relation(f"word '{word.name}'", word.when, knobs, sink)
