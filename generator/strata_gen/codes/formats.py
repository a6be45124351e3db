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
        "What 'decode' says names fields of the block.",
        "scale: delta  # the field is named d",
        "scale: d",
    ),
    Explanation(
        "F025",
        "a field with the wrong number of values",
        "'values' is a field with one value for each element of the block; 'scale' and 'minimum' are fields with one "
        "value.",
        "block: {elements: 2, bytes: 2}\nfields: [{name: v, type: f16, offset: 0, help: Value.}]\ndecode: {values: v}",
        "block: {elements: 1, bytes: 2}\nfields: [{name: v, type: f16, offset: 0, help: Value.}]\ndecode: {values: v}",
    ),
    Explanation(
        "F026",
        "a field that nothing uses",
        "A field that does not enter the value of any element would be stored for nothing, or was forgotten in "
        "'decode'.",
        "fields: [{name: d, ...}, {name: q, ...}]\ndecode: {quants: ...}",
        "fields: [{name: d, ...}, {name: q, ...}]\ndecode: {quants: ..., scale: d}",
    ),
    Explanation(
        "F027",
        "an encoding that does not fit the block",
        "'cast' converts plain floats; 'absmax' and 'peak' need one scale to divide by and integers without a lookup; "
        "'nearest' needs one scale, and integers that may be looked up; 'fit' needs a scale for every part of the "
        "block, and minimums only where scales, minimums and integers all begin at 0.",
        "decode: {values: value}\nencode: {rule: absmax, levels: 127}",
        "decode: {values: value}\nencode: {rule: cast}",
    ),
    Explanation(
        "F028",
        "levels do not fit",
        "'absmax', 'peak' and 'nearest' need 'levels', the integer that the largest magnitude becomes ('peak': its "
        "negative), and the stored integers must have it; 'cast' and 'fit' have none.",
        "encode: {rule: absmax, levels: 255}  # into i8",
        "encode: {rule: absmax, levels: 127}",
    ),
    Explanation(
        "F029",
        "an activation form that does not fit",
        "'float' is for plain floats with one value per block, 'int8' for blocks of 32 integers with one scale, "
        "'int8_256' for blocks of 256 integers whose parts have integer scales.",
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
    Explanation(
        "F031",
        "digits that do not make the elements",
        "The product of the digits is how many numbers there are: one per element for 'quants', one per equal part "
        "of the block for 'scales' and 'minimums'.",
        "block: {elements: 32, ...}\nquants: {digits: {half: 2, lane: 8}, ...}",
        "block: {elements: 32, ...}\nquants: {digits: {half: 2, lane: 16}, ...}",
    ),
    Explanation(
        "F032",
        "a plane of unknown digits",
        "'strides' and 'when' of a plane name digits that are declared beside it, and 'when' gives one a value "
        "below its count.",
        "digits: {half: 2, lane: 16}\nplanes: [{field: qs, bits: 4, strides: {lain: 8}}]",
        "digits: {half: 2, lane: 16}\nplanes: [{field: qs, bits: 4, strides: {half: 4, lane: 8}}]",
    ),
    Explanation(
        "F033",
        "a plane reads beyond its field",
        "An element has its bits at start + stride * digit, summed over the digits: they must lie inside the field.",
        "fields: [{name: qs, type: u8, count: 16, ...}]\nplanes: [{field: qs, bits: 4, strides: {lane: 16}}]",
        "fields: [{name: qs, type: u8, count: 16, ...}]\nplanes: [{field: qs, bits: 4, strides: {lane: 8}}]",
    ),
    Explanation(
        "F034",
        "bits across the end of a byte",
        "The bits that one plane gives to one element lie in one byte; what is split over two bytes takes two planes.",
        "- {field: scales, bits: 6, start: 6, strides: {part: 8}}",
        "- {field: scales, bits: 2, start: 6, strides: {part: 8}}\n"
        "- {field: scales, bits: 4, start: 8, to: 2, strides: {part: 8}}",
    ),
    Explanation(
        "F035",
        "numbers with bits made twice or not at all",
        "The planes that speak of an element together make each bit of its number once, from bit 0 up.",
        "- {field: ql, bits: 4, strides: ...}\n- {field: qh, bits: 2, to: 3, strides: ...}",
        "- {field: ql, bits: 4, strides: ...}\n- {field: qh, bits: 2, to: 4, strides: ...}",
    ),
    Explanation(
        "F036",
        "stored bits that are read twice or never",
        "Every bit of a field of integers belongs to one number: another count is most often a wrong stride.",
        "digits: {half: 2, lane: 16}\nplanes: [{field: qs, bits: 4, strides: {lane: 8}}]  # half is missing",
        "digits: {half: 2, lane: 16}\nplanes: [{field: qs, bits: 4, strides: {half: 4, lane: 8}}]",
    ),
    Explanation(
        "F037",
        "a lookup that does not match its index",
        "A table, or a grid's list of points, has one entry for every number that the planes can make; a point has "
        "a digit per value of the last digit, and each names a level.",
        "planes: [{field: qs, bits: 2, ...}]\ntable: [-1, 0, 1]",
        "planes: [{field: qs, bits: 2, ...}]\ntable: [-1, 0, 1, 2]",
    ),
    Explanation(
        "F038",
        "numbers beyond a signed byte",
        "Kernels hold what is decoded as signed bytes, after lookup, 'times' and 'offset'.",
        "offset: 120  # to numbers of four bits",
        "offset: -8",
    ),
    Explanation(
        "F039",
        "keys that do not go together",
        "A block decodes to plain 'values' or to 'quants'; 'scales' multiply 'scale', and 'minimum' and 'minimums' "
        "come together.",
        "decode: {quants: ..., scales: ...}",
        "decode: {quants: ..., scales: ..., scale: d}",
    ),
    Explanation(
        "F040",
        "blocks that no kernel reads",
        "Vector code takes 32 elements at a time whose bits lie in consecutive bytes, in consecutive bits, or in "
        "both halves of 16 bytes, and eight scales in consecutive bytes or packed one after the other; tables have at "
        "most 16 entries. 'explain F036' shows planes.",
        "digits: {lane: 16, half: 2}\n"
        "planes: [{field: qs, bits: 4, strides: {lane: 8, half: 4}}]  # neighbours share a byte",
        "digits: {half: 2, lane: 16}\nplanes: [{field: qs, bits: 4, strides: {half: 4, lane: 8}}]",
    ),
    Explanation(
        "F041",
        "a field of the wrong type",
        "Planes read fields of type u8, or whole values of type i8; 'values', 'scale' and 'minimum' are floats.",
        "decode: {quants: ..., scale: q}  # q is of type i8",
        "decode: {quants: ..., scale: d}  # d is of type f16",
    ),
    Explanation(
        "F042",
        "a layout that no instruction set has operations for",
        "'layouts' names instruction sets, by the 'isa' of a CPU level, with operations for rows side by side; the "
        "others read blocks as they are stored.",
        "layouts: [avx2]",
        "layouts: [avx512vnni]",
    ),
    Explanation(
        "F043",
        "a layout named twice",
        "An instruction set has one compute layout of a format.",
        "layouts: [avx512vnni, avx512vnni]",
        "layouts: [avx512vnni]",
    ),
)
