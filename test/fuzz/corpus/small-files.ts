/** Files of one or two kilobytes whose parts look harmless one by one. */
import { plainTokenizer } from '../../support/tiny-checkpoints.js';
import type { MaliciousCase } from './case.js';
import { generate, writeTarget } from './case.js';

interface HostileTokenizer {
  readonly name: string;
  readonly file: object;
  /** The text that it fails at. */
  readonly prompt: string;
}

/** One letter for each of 23 tokens, and further pieces with ids of their own. */
export function letterTokenizer(more: Readonly<Record<string, number>> = {}): Record<string, unknown> {
  const letters = plainTokenizer(Array.from('abcdefghijklmnopqrstuvw'));
  const model = letters.model as { readonly vocab: object };
  return { ...letters, model: { ...model, vocab: { ...model.vocab, ...more } } };
}

const text = (id: string): object => ({ Sequence: { id, type_id: 0 } });

export const hostileTokenizers: readonly HostileTokenizer[] = [
  {
    name: 'a template that inserts a second text',
    prompt: 'abc',
    file: {
      ...letterTokenizer(),
      post_processor: {
        type: 'TemplateProcessing',
        single: [text('A'), text('B')],
        pair: [text('A'), text('B')],
        special_tokens: {},
      },
    },
  },
  {
    name: 'a split with forty optional letters',
    prompt: 'ab'.repeat(22),
    file: {
      ...letterTokenizer(),
      pre_tokenizer: {
        type: 'Split',
        pattern: { Regex: `${'[ab]?'.repeat(40)}[ab]{40}` },
        behavior: 'Isolated',
        invert: false,
      },
    },
  },
  {
    name: 'an empty text in front of a prefix space',
    prompt: 'abc',
    file: {
      ...letterTokenizer(),
      normalizer: { type: 'Prepend', prepend: '' },
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    },
  },
];

/** Opens, and took minutes when it was compared with itself as the tokenizer of a drafter. */
export const hugeIdTokenizer = letterTokenizer({ z: 4_294_967_290 });

const doubleSixtyTimes = (what: string): string =>
  `{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}${what}`;

export const hostileTemplates: readonly { readonly name: string; readonly source: string }[] = [
  { name: 'a list doubled sixty times and printed', source: doubleSixtyTimes('{{ n.l }}') },
  { name: 'a list doubled sixty times and joined', source: doubleSixtyTimes('{{ n.l | join }}') },
  { name: 'a list doubled sixty times and appended to', source: doubleSixtyTimes('{{ n.l ~ "" }}') },
  { name: 'a list doubled sixty times and compared', source: doubleSixtyTimes('{{ n.l == "" }}') },
  { name: '250,000 blanks in runs of 999', source: `${' '.repeat(999)}x`.repeat(250) },
];

export const smallCases: readonly MaliciousCase[] = [
  ...hostileTokenizers.map(({ name, file, prompt }) => ({
    name,
    write: (folder: string) => generate(writeTarget(folder, { 'tokenizer.json': file }), '--prompt', prompt),
  })),
  {
    name: 'a target and a drafter with the token id 4,294,967,290',
    write: (folder) => {
      const target = writeTarget(folder, { 'tokenizer.json': hugeIdTokenizer });
      return generate(target, '--drafter', target, '--prompt', 'abc');
    },
  },
  ...hostileTemplates.map(({ name, source }) => ({
    name,
    write: (folder: string) => generate(writeTarget(folder, { 'chat_template.jinja': source })),
  })),
];
