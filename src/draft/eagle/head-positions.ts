/**
 * Refuses position settings that engines ignore or interpret differently:
 * - dynamic `rope_scaling`: transformers stretches the base only for long sequences, vLLM and SGLang always, and
 * Hunyuan's heads mean a constant `alpha`
 * - longrope: factors for long sequences are not supported
 * - a window: `layer_types` names the layers that have one, else `sliding_window`; configs derived from Qwen switch
 * it off by `use_sliding_window`
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
