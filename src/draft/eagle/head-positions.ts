/**
 * Settings that let a head read positions in a way that is not run here. Engines ignore them, or disagree on what they
 * mean, so they are refused by name.
 *
 * - `rope_scaling` of type dynamic: transformers stretches the base once a sequence is longer than
 *   max_position_embeddings, vLLM and SGLang stretch it for all positions, and Hunyuan's heads mean a constant `alpha`.
 * - longrope: a head runs to the end of its target's context, but the factors for long sequences are not supported.
 * - a window: `layer_types` names the layers that have one; without it, `sliding_window` alone says so. Configs derived
 *   from Qwen keep a window and switch it off by `use_sliding_window`.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { showValue } from '../../core/json-text.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import { misfit } from '../reading/checks.js';
import { flattenConfig } from '../reading/draft-configuration.js';
import type { Refuse } from '../draft-system.js';

export function refuseUnusualPositions(
  { config, folder }: Pick<Checkpoint, 'config' | 'folder'>,
  { rotaryScaling }: Pick<ModelConfiguration, 'rotaryScaling'>,
  target: Pick<ModelConfiguration, 'contextLength'> | undefined,
  refuse: Refuse,
): void {
  if (rotaryScaling.kind === 'dynamic') {
    const hint =
      'Engines compute it in different ways. Use a head without it; if yours was trained with plain angles, remove rope_scaling from its config.json.';
    refuse(misfit(folder, 'asks for the rotary scaling "dynamic", which is not supported in a head', hint));
  }
  if (rotaryScaling.kind === 'longrope' && target !== undefined) {
    const { originalContext } = rotaryScaling;
    if (target.contextLength > originalContext) {
      const fault = `asks for the rotary scaling "longrope" beyond ${originalContext} positions; the target reads ${target.contextLength}`;
      refuse(misfit(folder, fault, 'Its factors for longer sequences are not supported: use another head.'));
    }
  }
  const {
    layer_types: kinds,
    sliding_window: window,
    use_sliding_window: usesWindow,
  } = flattenConfig(config);
  const unsupported = 'A head that sees only the last positions is not supported.';
  if (Array.isArray(kinds)) {
    if (kinds.includes('sliding_attention'))
      refuse(misfit(folder, 'asks for sliding attention in layer_types', unsupported));
  } else if (window !== undefined && usesWindow !== false) {
    const fault = `asks for sliding attention by "sliding_window": ${showValue(window)}`;
    const off = 'If it was trained without a window, set "use_sliding_window": false in its config.json.';
    refuse(misfit(folder, fault, `${unsupported} ${off}`));
  }
}
