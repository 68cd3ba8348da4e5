/** CUDA sources, split into kernels and translated to C++ that the emulation's header completes. */
import { MistletoeError } from '../../src/core/errors.js';

/** One kernel of a source, with the helpers it may call. Equal kernels of two sources have equal texts. */
export interface KernelSource {
  readonly name: string;
  readonly helpers: string;
  /** The definition, with `kernel` in place of its name. */
  readonly definition: string;
  /** Where the definition begins in the source, counted from 1. */
  readonly line: number;
}

const bounds = String.raw`(?:__launch_bounds__\s*\([^)]*\)\s*)?`;
const head = new RegExp(
  String.raw`(extern\s+"C"\s+__global__\s+${bounds}void\s+${bounds})(\w+)(?=\s*\()`,
  'g',
);

/** Helpers stand before the first kernel. */
export function splitKernels(source: string): readonly KernelSource[] {
  const heads = [...source.matchAll(head)];
  const helpers = translate(source.slice(0, heads[0]?.index));
  return heads.map((match, index) => {
    const [, declaration, name] = match as unknown as [string, string, string];
    const text = source.slice(match.index, heads[index + 1]?.index);
    const end = findEnd(text);
    if (text.slice(end).trim() !== '')
      throw new MistletoeError('runtime', `There is code after kernel ${name} that is not a kernel.`, {
        hint: 'Kernels are compiled one by one. Put helpers before the first kernel.',
      });
    return {
      ...{ name, helpers, line: source.slice(0, match.index).split('\n').length },
      definition: translate(`${declaration}kernel${text.slice(match[0].length, end)}`),
    };
  });
}

/** The end of the first block in braces. */
function findEnd(text: string): number {
  let depth = 0;
  for (const { 0: brace, index } of text.matchAll(/[{}]/g)) {
    depth += brace === '{' ? 1 : -1;
    if (depth === 0) return index + 1;
  }
  return text.length;
}

/** Shared memory and inline assembly need more than macros. Lines stay where they are, for error messages. */
function translate(source: string): string {
  return source
    .replace(
      /\bextern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w\s]*\w)\s+(\w+)\s*\[\s*\]\s*;/g,
      'EMULATED_DYNAMIC_SHARED($1, $2);',
    )
    .replace(/\b__shared__\s[^;=,()]*?\b(\w+)\s*(?:\[[^\];]*\]\s*)*;/g, '$& EMULATED_STATIC_SHARED($1);')
    .replace(/\basm(?:\s+volatile)?\s*\("([^"]*)"([^;]*)\);/g, (_, instruction: string, operands: string) => {
      const name = instructions.get(instruction);
      if (name === undefined)
        throw new MistletoeError('runtime', `The emulated device has no instruction "${instruction}".`, {
          hint: 'Add it to emulated-source.ts and emulated-instructions.h.',
        });
      // Results and operands; what follows them concerns the compiler.
      const values = operands.split(':').slice(1, 3);
      const given = values.map((list) => list.replace(/"[=+]?\w"/g, '').trim()).filter((list) => list !== '');
      return `emulated::${name}(${given.join(', ')});`;
    });
}

const tileProduct = (shape: string, type: string): string =>
  `mma.sync.aligned.${shape}.row.col.f32.${type}.${type}.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};`;

/** Functions of emulated-instructions.h, by the whole text of the instruction. */
const instructions: ReadonlyMap<string, string> = new Map([
  ['ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];', 'loadFour'],
  ['ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];', 'loadTwo'],
  ['griddepcontrol.launch_dependents;', 'doNothing'],
  ['griddepcontrol.wait;', 'doNothing'],
  ['', 'doNothing'],
  ['cvt.rna.tf32.f32 %0, %1;', 'roundToTf32'],
  ['cvt.rn.bf16x2.f32 %0, %1, %2;', 'packBfloat16'],
  ['cvt.rn.f16x2.f32 %0, %1, %2;', 'packFloat16'],
  ['cvt.f32.f16 %0, %1;', 'widenFloat16'],
  [tileProduct('m16n8k8', 'tf32'), 'multiplyTile<emulated::TileType::tf32>'],
  [tileProduct('m16n8k16', 'bf16'), 'multiplyTile<emulated::TileType::bfloat16>'],
  [tileProduct('m16n8k16', 'f16'), 'multiplyTile<emulated::TileType::float16>'],
]);
