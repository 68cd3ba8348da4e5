/** Tokenizers, templates, prompts and trees that panic, hang or grow. */
import { join } from 'node:path';
import { plainTokenizer, tiny } from '../../support/tiny-checkpoints.js';
import { drafterVariants } from '../../support/tiny-drafters.js';
import type { MaliciousCase } from './case.js';
import { generate, nest, writeFiles, writeTarget } from './case.js';

const letters = plainTokenizer(Array.from('abcdefghijklmnopqrstuvwx'));
const withTokenizer = (name: string, file: object | string, prompt = 'abc'): MaliciousCase => ({
  name,
  write: (folder) => generate(writeTarget(folder, { 'tokenizer.json': file }), '--prompt', prompt),
});
const withTemplate = (name: string, template: string): MaliciousCase => ({
  name,
  write: (folder) => generate(writeTarget(folder, { 'chat_template.jinja': template })),
});
const withPrompts = (name: string, file: string, contents: string): MaliciousCase => ({
  name,
  write: (folder) =>
    generate(writeTarget(folder), '--prompts', join(writeFiles(folder, { [file]: contents }), file)),
});
const withTree = (name: string, contents: string): MaliciousCase => ({
  name,
  write: (folder) => {
    const medusa = drafterVariants.find((variant) => variant.kind === 'medusa')!;
    const drafter = medusa.write(join(folder, 'drafter'), tiny);
    const tree = join(writeFiles(folder, { 'tree.json': contents }), 'tree.json');
    return generate(writeTarget(folder), '--drafter', drafter, '--draft', `tree:${tree}`, '--prompt', 'abc');
  },
});

const replace = { type: 'Replace', pattern: { String: 'a' }, content: 'aaaa' };
const split = { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated', invert: false };
const added = { special: true, single_word: false, lstrip: false, rstrip: false, normalized: false };

export const textCases: readonly MaliciousCase[] = [
  withTokenizer('a Precompiled normalizer with a bad charsmap', {
    ...letters,
    normalizer: { type: 'Precompiled', precompiled_charsmap: 'AAAA' },
  }),
  withTokenizer('pieces of length 0', { ...letters, pre_tokenizer: { type: 'FixedLength', length: 0 } }),
  withTokenizer('a TemplateProcessing with an unknown token', {
    ...letters,
    post_processor: {
      type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [{ Sequence: { id: 'A', type_id: 0 } }],
      special_tokens: {},
    },
  }),
  withTokenizer('a decoder that strips more than there is', {
    ...letters,
    decoder: { type: 'Strip', content: 'a', start: 9, stop: 9 },
  }),
  withTokenizer('a split that backtracks', { ...letters, pre_tokenizer: split }, `${'a'.repeat(4000)}b`),
  withTokenizer('forty replacements that each make four of one', {
    ...letters,
    normalizer: { type: 'Sequence', normalizers: new Array(40).fill(replace) },
  }),
  withTokenizer('a tokenizer.json of 400,000 nested lists', nest(400_000)),
  withTokenizer('an added token with the id 4,000,000,000', {
    ...letters,
    added_tokens: [{ id: 4_000_000_000, content: '<x>', ...added }],
  }),
  withTokenizer('a vocabulary with the id 999,999,999', plainTokenizerWith('z', 999_999_999), 'azb'),
  withTokenizer('a merge that makes a piece longer than all that there are', {
    ...letters,
    model: { type: 'BPE', vocab: { a: 0, b: 1 }, merges: ['a b'] },
  }),
  withTokenizer(
    'a token for the unknown that is itself unknown',
    { ...letters, model: { ...(letters.model as object), unk_token: '<unk>' } },
    'abc?',
  ),
  withTokenizer('a tokenizer without a model', { version: '1.0' }),
  withTemplate('range(1e12)', '{% for i in range(1000000000000) %}{% endfor %}'),
  withTemplate(
    'four nested loops over 100,000 numbers',
    `${'{% for i in range(100000) %}'.repeat(4)}x${'{% endfor %}'.repeat(4)}`,
  ),
  withTemplate(
    'replacements that grow',
    `{% set ns = namespace(x="a") %}{% for i in range(30) %}{% set ns.x = ns.x | replace("a", "${'a'.repeat(60)}") %}{% endfor %}`,
  ),
  withTemplate(
    'a text that doubles sixty times',
    '{% set ns = namespace(x="ab") %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}',
  ),
  withTemplate('200,000 blanks', ' '.repeat(200_000)),
  withTemplate(
    'an output of 5 MB',
    '{% for i in range(100000) %}{{ "012345678901234567890123456789012345678901234567890" }}{% endfor %}',
  ),
  withTemplate('a macro that calls itself', '{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}'),
  withTemplate('50,000 brackets', `{{ ${'('.repeat(50_000)}1${')'.repeat(50_000)} }}`),
  withTemplate(
    'an error that steers the terminal',
    '{{ raise_exception("\u001b[2J\u001b]0;owned\u0007\n\nerror: x") }}',
  ),
  withPrompts('a prompt of 200,000 nested lists', 'prompts.jsonl', nest(200_000)),
  withPrompts('half a million blank lines', 'prompts.jsonl', '\n'.repeat(500_000)),
  withPrompts('prompts whose id steers the terminal', 'prompts.jsonl', '{"id":"\\u001b[2J","prompt":""}\n'),
  withPrompts('a prompt of 900,000 letters', 'prompts.txt', 'abc'.repeat(300_000)),
  withTree('a tree of 60,000 nodes', JSON.stringify(Array.from({ length: 60_000 }, (_, rank) => [rank]))),
  withTree(
    'a tree of 600 levels',
    JSON.stringify(Array.from({ length: 600 }, (_, depth) => new Array<number>(depth + 1).fill(0))),
  ),
  withTree('a tree of 400,000 nested lists', nest(400_000)),
];

function plainTokenizerWith(piece: string, id: number): object {
  const model = letters.model as { readonly vocab: object };
  return { ...letters, model: { ...model, vocab: { ...model.vocab, [piece]: id } } };
}
