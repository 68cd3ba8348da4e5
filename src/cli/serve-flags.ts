/** The options of `serve` as commander hands them over. */
import type { MetricsLevel } from '../serve/request-schema.js';
import type { DownloadFlags, DrafterFlags, MachineFlags, TemplateFlags } from './common-flags.js';

export interface ServeFlags extends MachineFlags, TemplateFlags, DownloadFlags, DrafterFlags {
  readonly target: string;
  readonly drafter: readonly string[];
  readonly draft?: string;
  readonly guarded?: true;
  readonly slowdown?: number;
  readonly ladder?: readonly string[];
  readonly floor?: number;
  readonly servedModelName?: string;
  readonly host: string;
  readonly port: number;
  readonly keys?: string;
  readonly allowAnonymous?: true;
  readonly concurrency: number;
  readonly maxMemory?: number;
  readonly maxBody: number;
  readonly maxPromptTokens?: number;
  readonly maxNewTokens?: number;
  readonly maxChoices: number;
  readonly maxQueue: number;
  readonly maxSeconds: number;
  readonly grace: number;
  readonly perRequestSpecDecodeMetrics: MetricsLevel;
  readonly logPrompts?: true;
}
