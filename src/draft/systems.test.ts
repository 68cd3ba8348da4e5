import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { StoredTensor } from '../checkpoint/stored-tensor.js';
import { recogniseCheckpoint, systems, trainableSystems } from './systems.js';

function recognise(...names: string[]) {
  return recogniseCheckpoint({ tensors: new Map(names.map((name) => [name, {} as StoredTensor])) });
}

const decoder = ['model.embed_tokens.weight', 'model.layers.0.self_attn.q_proj.weight', 'lm_head.weight'];

describe('recogniseCheckpoint', () => {
  it.each([
    ['decoder', 'language model', decoder],
    [
      'decoder',
      'language model with Medusa-2 heads in its shards',
      [...decoder, 'medusa_head.0.0.linear.weight', 'medusa_head.0.1.weight'],
    ],
    ['medusa', 'Medusa-1 heads', ['0.0.linear.weight', '0.0.linear.bias', '0.1.weight']],
    ['medusa', 'Medusa-1 heads', ['medusa_heads.0.0.linear.weight', 'medusa_heads.0.1.weight']],
    ['medusa', 'Medusa heads, vLLM naming', ['blocks.0.layers.0.weight', 'lm_heads.0.weight']],
    [
      'medusa',
      'Medusa heads, vLLM naming',
      ['medusa_heads.blocks.0.layers.0.weight', 'medusa_heads.lm_heads.0.weight'],
    ],
    ['hydra', 'Hydra (mlp)', ['hydra_mlp.0.0.linear.weight', 'hydra_lm_head.0.weight']],
    [
      'hydra',
      'Hydra++ (prefix-mlp)',
      ['hydra_mlp.0.1.linear.weight', 'hydra_lm_head.0.1.weight', 'prefix_embeding_layer.norm.weight'],
    ],
    ['eagle', 'EAGLE-1/-2 or HASS head', ['fc.weight', 'layers.0.self_attn.q_proj.weight']],
    [
      'eagle',
      'EAGLE-1/-2 or HASS head',
      ['embed_tokens.weight', 'fc.weight', 'layers.0.self_attn.q_proj.weight'],
    ],
    ['eagle', 'EAGLE-1/-2 or HASS head', ['model.fc.weight', ...decoder]],
    ['eagle3', 'EAGLE-3 head', ['fc.weight', 'midlayer.self_attn.q_proj.weight', 'lm_head.weight', 'd2t']],
    ['eagle3', 'EAGLE-3 head', ['model.fc.weight', 'model.midlayer.hidden_norm.weight', 'lm_head.weight']],
    [
      'eagle3',
      'EAGLE-3 head, layers.0 naming',
      ['fc.weight', 'layers.0.hidden_norm.weight', 'layers.0.self_attn.q_proj.weight'],
    ],
    [
      'eagle3',
      'EAGLE-3 head, layers.0 naming',
      ['model.fc.weight', 'model.layers.0.hidden_norm.weight', ...decoder],
    ],
    ['unknown', 'no layout that is known here', ['bert.encoder.weight']],
    ['unknown', 'no layout that is known here', ['fc.weight', 'fc.bias']],
    ['unknown', 'no layout that is known here', []],
  ])('%s: %s', (kind, layout, names) => {
    expect(recognise(...names)).toMatchObject({ kind, layout });
  });

  it('knows systems by names of their own', () => {
    const names = systems.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  it('says where Medusa-2 keeps its heads', () => {
    expect(recognise(...decoder, 'medusa_head.0.0.linear.weight').system?.name).toBe('medusa');
    expect(recognise(...decoder).system?.name).toBe('speculative-sampling');
  });
});

it('docs/train.md has a row for every system that can be trained', () => {
  const page = readFileSync(resolve(import.meta.dirname, '../../docs/train.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `([\w-]+)`/gm)].map(([, name]) => name);
  expect(rows).toEqual(expect.arrayContaining([...trainableSystems]));
});
