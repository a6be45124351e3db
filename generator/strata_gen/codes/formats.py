"""Codes of weight formats."""

from __future__ import annotations

from strata_gen.codes.explanation import Explanation

CODES: tuple[Explanation, ...] = (
    Explanation(
        "F020",
        "two fields of one name",
        "The fields of a block are told apart by their names.",
        "fields:\n  - {name: q, type: f16, offset: 0, help: Scale.}\n  - {name: q, type: i8, offset: 2, help: Value.}",
        "fields:\n  - {name: d, type: f16, offset: 0, help: Scale.}\n  - {name: q, type: i8, offset: 2, help: Value.}",
    ),
    Explanation(
        "F021",
        "a field ends beyond its block",
        "A field covers count times the size of its type, from its offset on, and must lie inside the block's bytes.",
        "block: {elements: 32, bytes: 32}\nfields: [{name: q, type: i8, offset: 2, count: 32, help: Values.}]",
        "block: {elements: 32, bytes: 34}\nfields: [{name: q, type: i8, offset: 2, count: 32, help: Values.}]",
    ),
    Explanation(
        "F022",
        "fields overlap",
        "Every byte of a block belongs to one field.",
        "- {name: d, type: f16, offset: 0, help: Scale.}\n- {name: q, type: i8, offset: 1, count: 32, help: Values.}",
        "- {name: d, type: f16, offset: 0, help: Scale.}\n- {name: q, type: i8, offset: 2, count: 32, help: Values.}",
    ),
    Explanation(
        "F023",
        "bytes that belong to no field",
        "Blocks are packed without gaps: a byte that no field covers is most often a wrong offset or size.",
        "block: {elements: 32, bytes: 36}  # the fields cover 34",
        "block: {elements: 32, bytes: 34}",
    ),
    Explanation(
        "F024",
        "unknown field",
        "'quant' and 'scale' name fields of the block.",
        "decode: {quant: qs, scale: d}  # the field is named q",
        "decode: {quant: q, scale: d}",
    ),
    Explanation(
        "F025",
        "a field with the wrong number of values",
        "'quant' is a field with one value for each element of the block; 'scale' is a field with one value.",
        "block: {elements: 32, bytes: 18}\nfields: [{name: q, type: i8, offset: 2, count: 16, help: Values.}, ...]",
        "block: {elements: 32, bytes: 34}\nfields: [{name: q, type: i8, offset: 2, count: 32, help: Values.}, ...]",
    ),
    Explanation(
        "F026",
        "a field that nothing uses",
        "A field that does not enter the value of any element would be stored for nothing, or was forgotten in "
        "'decode'.",
        "fields: [{name: d, ...}, {name: q, ...}]\ndecode: {quant: q}",
        "fields: [{name: d, ...}, {name: q, ...}]\ndecode: {quant: q, scale: d}",
    ),
    Explanation(
        "F027",
        "an encoding that does not fit the block",
        "'cast' converts plain floats without a scale; 'absmax' needs integer values and a scale to divide by.",
        "decode: {quant: value}  # a bf16 field\nencode: {rule: absmax, levels: 127}",
        "decode: {quant: value}  # a bf16 field\nencode: {rule: cast}",
    ),
    Explanation(
        "F028",
        "levels do not fit",
        "'absmax' needs 'levels', the integer that the largest magnitude becomes, and it must fit the stored "
        "type; 'cast' has none.",
        "encode: {rule: absmax, levels: 255}  # into i8",
        "encode: {rule: absmax, levels: 127}",
    ),
    Explanation(
        "F029",
        "an activation form that does not fit",
        "'float' is for plain floats with one value per block, 'int8' for blocks of signed bytes with a "
        "half-precision scale, as wide as the blocks that activations are quantised in.",
        "block: {elements: 1, bytes: 2}\nactivation: int8",
        "block: {elements: 1, bytes: 2}\nactivation: float",
    ),
    Explanation(
        "F030",
        "two formats of one name",
        "A format's name, its dtype in safetensors and its type in GGUF each belong to one format.",
        "# formats/a.yaml\nname: q8_0\n# formats/b.yaml\nname: q8_0",
        "# formats/a.yaml\nname: q8_0\n# formats/b.yaml\nname: q8_1",
    ),
)
