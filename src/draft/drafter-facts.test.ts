import { describe, expect, it } from 'vitest';
import type { StoredTensor } from '../checkpoint/stored-tensor.js';
import { readDrafterFacts } from './drafter-facts.js';

function problemsOf(system: 'medusa' | 'hydra', names: readonly string[]): readonly string[] {
  const tensors = new Map(names.map((name) => [name, { name, shape: [8, 4] } as unknown as StoredTensor]));
  return readDrafterFacts(system, { tensors, config: {} }).problems.map(({ problem }) => problem);
}

describe.each([
  ['Medusa', 'medusa', ['#.0.linear.weight', '#.0.linear.bias', '#.1.weight'], []],
  ['Medusa, vLLM naming', 'medusa', ['blocks.#.layers.0.weight', 'lm_heads.#.weight'], []],
  ['Medusa-2', 'medusa', ['medusa_head.#.0.linear.weight'], ['model.layers.7.mlp.up_proj.weight']],
  ['Hydra', 'hydra', ['hydra_mlp.#.0.linear.weight', 'hydra_lm_head.#.weight'], []],
  ['Hydra++', 'hydra', ['hydra_mlp.#.1.linear.bias'], ['prefix_embeding_layer.norm.weight']],
] as const)('%s', (_, system, parts, others) => {
  const ofHead = (head: number): string[] => parts.map((part) => part.replace('#', String(head)));
  const names = [...others, ...[0, 1, 2].flatMap(ofHead)];

  it('is complete', () => {
    expect(problemsOf(system, names)).toEqual([]);
  });

  it('has a tensor that nothing reads', () => {
    const stray = system === 'medusa' ? 'medusa_head.extra.weight' : 'hydra_gate.weight';
    expect(problemsOf(system, [...names, stray])).toEqual([
      `The drafter holds "${stray}", which nothing here reads.`,
    ]);
  });

  it.each([...ofHead(0), ...ofHead(1)])('lacks %s', (lost) => {
    const left = names.filter((name) => name !== lost);
    expect(problemsOf(system, left)).toEqual([`The drafter has no tensor ${lost}.`]);
  });
});
