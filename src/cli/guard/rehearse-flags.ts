/** The options of `guard rehearse` as commander hands them over. */
import type { DownloadFlags, DrafterFlags, MachineFlags, TemplateFlags } from '../common-flags.js';

export interface RehearseFlags extends MachineFlags, TemplateFlags, DownloadFlags, DrafterFlags {
  readonly target: string;
  readonly drafter: string;
  readonly draftLength: number;
  readonly stageRequests: number;
  readonly upstream?: string;
  readonly keyEnv?: string;
  readonly acceptedLength: number;
  readonly prompts?: string;
  readonly requests: number;
  readonly maxNewTokens: number;
  readonly falseAlarms?: number;
}
