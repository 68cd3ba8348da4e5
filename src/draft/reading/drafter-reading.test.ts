import { describe, expect, it } from 'vitest';
import type { Checkpoint, StoredTensor } from '../../checkpoint/stored-tensor.js';
import { hydra } from '../hydra/hydra.js';
import { readDrafter } from './drafter-reading.js';
import { medusa } from '../medusa/medusa.js';

type Shapes = Readonly<Record<string, readonly number[]>>;

function problemsOf(
  system: typeof medusa,
  shapes: Shapes,
  config: Checkpoint['config'] = {},
): readonly string[] {
  const tensors = new Map(
    Object.entries(shapes).map(([name, shape]) => [
      name,
      { name, shape, dtype: 'F32' } as unknown as StoredTensor,
    ]),
  );
  const checkpoint = { folder: 'here', files: [], tensors, config } as unknown as Checkpoint;
  return readDrafter(system, checkpoint).problems.map(({ problem }) => problem);
}

/** Width 4, 8 tokens; `#` is the head. */
const medusaHead = { '#.0.linear.weight': [4, 4], '#.0.linear.bias': [4], '#.1.weight': [8, 4] };
const vllmHead = {
  'blocks.#.layers.0.weight': [4, 4],
  'blocks.#.layers.0.bias': [4],
  'lm_heads.#.weight': [8, 4],
};
const prefixed = (prefix: string, shapes: Shapes): Shapes =>
  Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [`${prefix}${name}`, shape]));
const hydraHead = (block: number, output: string): Shapes => ({
  [`hydra_mlp.#.${block}.linear.weight`]: [4, -1],
  [`hydra_mlp.#.${block}.linear.bias`]: [4],
  [`hydra_mlp.#.${block}.res_connection.weight`]: [4, -1],
  [`hydra_mlp.#.${block}.res_connection.bias`]: [4],
  [`${output}.weight`]: [8, 4],
  [`${output}.bias`]: [8],
});
const decoder = {
  'model.embed_tokens.weight': [8, 4],
  'model.layers.0.self_attn.q_proj.weight': [4, 4],
};
const prefixLayer = prefixed('prefix_embeding_layer.', {
  'embed_tokens.weight': [8, 4],
  'norm.weight': [4],
  ...prefixed('layers.0.', {
    'input_layernorm.weight': [4],
    'post_attention_layernorm.weight': [4],
    'self_attn.q_proj.weight': [4, 4],
    'self_attn.k_proj.weight': [2, 4],
    'self_attn.v_proj.weight': [2, 4],
    'self_attn.o_proj.weight': [4, 4],
    'mlp.gate_proj.weight': [6, 4],
    'mlp.up_proj.weight': [6, 4],
    'mlp.down_proj.weight': [4, 6],
  }),
});
const three = { hydra_num_heads: 3, hydra_num_layers: 1 };

describe.each([
  ['Medusa', medusa, medusaHead, {}, {}],
  ['Medusa, vLLM naming', medusa, vllmHead, {}, {}],
  ['Medusa-2', medusa, prefixed('medusa_head.', medusaHead), decoder, {}],
  ['Hydra', hydra, hydraHead(0, 'hydra_lm_head.#'), {}, three],
  [
    'Hydra++',
    hydra,
    hydraHead(1, 'hydra_lm_head.#.1'),
    prefixLayer,
    { ...three, hydra_head_arch: 'prefix-mlp' },
  ],
])('%s', (_, system, parts: Shapes, others: Shapes, config) => {
  // Hydra's head i reads the feature and i + 1 embeddings.
  const ofHead = (head: number): Shapes =>
    Object.fromEntries(
      Object.entries(parts).map(([name, shape]) => [
        name.replace('#', String(head)),
        shape.map((size) => (size < 0 ? 4 * (head + 2) : size)),
      ]),
    );
  const shapes: Shapes = { ...others, ...ofHead(0), ...ofHead(1), ...ofHead(2) };
  const without = (lost: string): Shapes =>
    Object.fromEntries(Object.entries(shapes).filter(([name]) => name !== lost));

  it('is complete', () => {
    expect(problemsOf(system, shapes, config)).toEqual([]);
  });

  it('has a tensor that nothing reads', () => {
    const stray = system === medusa ? 'medusa_head.extra.weight' : 'hydra_gate.weight';
    expect(problemsOf(system, { ...shapes, [stray]: [8, 4] }, config)).toEqual([
      `The drafter holds "${stray}", which nothing here reads.`,
    ]);
  });

  it.each([...Object.keys(ofHead(0)), ...Object.keys(ofHead(1)), ...Object.keys(ofHead(2))])(
    'lacks %s',
    (lost) => {
      expect(problemsOf(system, without(lost), config)).toEqual([
        expect.stringContaining(`here has no tensor "${lost}"`),
      ]);
    },
  );

  it('has a tensor of another shape', () => {
    const [name] = Object.keys(ofHead(2));
    const [problem] = problemsOf(system, { ...shapes, [name!]: [4, 5] }, config);
    expect(problem).toMatch(/^tensor ".*" of here has shape \[4, 5\], expected \[4, \d+\]/);
  });
});

describe('counts in a stranger’s file', () => {
  it.each([medusa, hydra])('ask for no more recipes than there could be tensors', (system) => {
    const name = system === medusa ? (index: number) => `${index}.0.linear.weight` : () => '';
    const many = Object.fromEntries([
      ...Array.from({ length: 2000 }, (_, head) => [
        system === medusa ? name(head) : `hydra_mlp.${head}.0.linear.weight`,
        [4, 4],
      ]),
      ...Array.from({ length: 2000 }, (_, block) => [
        system === medusa ? `0.${block}.linear.weight` : `hydra_mlp.0.${block}.linear.weight`,
        [4, 4],
      ]),
    ]) as Shapes;
    const config = { hydra_num_heads: 1e9, hydra_num_layers: 1e9 };
    expect(problemsOf(system, many, config).length).toBeLessThan(20_000);
  });
});

describe('a config.json of another drafter', () => {
  it('is told by the sizes that it states', () => {
    const shapes = { '0.0.linear.weight': [4, 4], '0.0.linear.bias': [4], '0.1.weight': [8, 4] };
    expect(problemsOf(medusa, shapes, { hidden_size: 6, vocab_size: 9 })).toEqual([
      'config.json says hidden_size 6, but the tensors have 4.',
      'config.json says vocab_size 9, but the tensors have 8.',
    ]);
    expect(problemsOf(medusa, shapes, { medusa_num_heads: 3 })).toEqual([
      'The drafter in here declares 3 heads and holds 1.',
    ]);
  });
});
