import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { readTaps } from './eagle3.js';

const read = (config: Record<string, unknown>, layerCount: number) =>
  readTaps({ folder: 'head', config }, layerCount);

describe('readTaps', () => {
  it.each([
    [32, [2, 16, 29]],
    [40, [2, 20, 37]],
    [8, [2, 4, 5]],
    [61, [2, 30, 58]],
  ])('taps a target of %i layers where the authors do', (layerCount, taps) => {
    expect(read({}, layerCount)).toEqual(taps);
    expect(read({ eagle_config: null }, layerCount)).toEqual(taps);
    expect(read({ eagle_config: { use_aux_hidden_state: true } }, layerCount)).toEqual(taps);
  });

  it('takes them from the config, nested or not', () => {
    expect(read({ eagle_config: { eagle_aux_hidden_state_layer_ids: [1, 5, 8] } }, 8)).toEqual([1, 5, 8]);
    expect(read({ eagle_aux_hidden_state_layer_ids: [0, 3] }, 8)).toEqual([0, 3]);
    const both = {
      eagle_config: { eagle_aux_hidden_state_layer_ids: [1] },
      eagle_aux_hidden_state_layer_ids: [2],
    };
    expect(read(both, 8)).toEqual([1]);
  });

  it.each([[[2, 4, 9]], [[-1]], [[1.5]], [[]], ['2,4,5'], [7]])('refuses %j for 8 layers', (given) => {
    const readWrong = () => read({ eagle_aux_hidden_state_layer_ids: given }, 8);
    expect(readWrong).toThrow(MistletoeError);
    expect(readWrong).toThrow(`asks for the taps ${JSON.stringify(given)}; layers from 0 to 8 were expected`);
  });
});
