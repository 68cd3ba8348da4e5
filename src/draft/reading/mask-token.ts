import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { misfit, type Refuse } from './checks.js';
import { flattenConfig } from './draft-configuration.js';

/** The first of these keys counts, in the order of vLLM's loader. */
const maskKeys = ['mask_token_id', 'dspark_noise_token_id', 'pard_token', 'ptd_token_id'] as const;

export function readMaskToken(
  { config, folder }: Checkpoint,
  vocabularySize: number,
  refuse: Refuse,
): number {
  const outer = flattenConfig(config);
  const flat = { ...outer, ...(outer.dflash_config as Readonly<Record<string, unknown>> | undefined) };
  const key = maskKeys.find((name) => flat[name] !== undefined);
  const found = key === undefined ? undefined : flat[key];
  if (Number.isInteger(found) && (found as number) >= 0 && (found as number) < vocabularySize)
    return found as number;
  const seen = key === undefined ? 'no mask token' : `${key} ${JSON.stringify(found)}`;
  refuse(
    misfit(
      folder,
      `has ${seen} in its config.json; a token id below ${vocabularySize} was expected`,
      'Take config.json and the weights from the same drafter: another mask token drafts nonsense.',
    ),
  );
  return 0;
}
