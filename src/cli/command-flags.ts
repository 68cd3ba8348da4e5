/** The options of every command as commander hands them over. */
import type { AuditSettings } from '../audit/settings.js';
import type { VerificationRule } from '../decode/verification/verification.js';
import type {
  DeviceFlags,
  DownloadFlags,
  DrafterFlags,
  MachineFlags,
  SamplingFlags,
  TemplateFlags,
} from './common-options.js';
import type { ProgressMode } from './progress.js';

/** The settings are there only where they were given. */
export interface AuditFlags
  extends Partial<AuditSettings>, MachineFlags, TemplateFlags, DownloadFlags, DrafterFlags {
  readonly target: string;
  readonly drafter: readonly string[];
  readonly draft?: string;
  readonly prompt?: string;
  readonly prompts?: string;
  readonly promptsDir?: string;
  readonly limit?: number;
  readonly preset: string;
  readonly raw?: boolean;
  readonly suffix?: readonly string[];
  readonly dryRun?: boolean;
  readonly universal?: boolean;
  readonly transfer?: boolean;
  readonly seed: number;
  readonly out?: string;
  readonly resume?: string;
  readonly verify?: string;
  readonly failIfDrop?: number;
  readonly failIfAcceptedLengthBelow?: number;
  readonly progress: ProgressMode;
  readonly format: 'text' | 'json' | 'markdown';
}

/** Lists are empty where nothing was given. */
export interface BenchFlags extends SamplingFlags, MachineFlags, TemplateFlags, DownloadFlags, DrafterFlags {
  readonly target: string;
  readonly drafter: readonly string[];
  readonly draft: readonly string[];
  readonly prompts: readonly string[];
  readonly promptsDir?: string;
  readonly limit?: number;
  readonly maxNewTokens: number;
  readonly seed: number;
  readonly warmup: number;
  readonly concurrency: number;
  readonly format: 'markdown' | 'json' | 'jsonl';
  readonly answers?: string;
  readonly progress: ProgressMode;
}

export const cacheTasks = ['list', 'trim', 'clear', 'verify'] as const;
export type CacheTask = (typeof cacheTasks)[number];

export interface CacheFlags {
  readonly to?: number;
  readonly cacheDir?: string;
  readonly format: 'text' | 'json';
}

export interface CompareFlags {
  readonly format: 'text' | 'json' | 'markdown' | 'html';
  readonly failIfWorse?: number;
}

export interface DemoFlags extends MachineFlags {
  readonly maxNewTokens: number;
  readonly runs: number;
  readonly act?: '1' | '2';
  readonly out?: string;
}

export interface DoctorFlags {
  readonly keyEnv?: string;
  /** In seconds. */
  readonly timeout: number;
  readonly format: 'text' | 'json';
}

export interface GenerateFlags
  extends SamplingFlags, MachineFlags, TemplateFlags, DownloadFlags, DrafterFlags {
  readonly target: string;
  readonly prompt?: string;
  readonly prompts?: string;
  readonly chat?: true;
  readonly raw?: true;
  readonly maxNewTokens: number;
  readonly seed: number;
  readonly drafter?: string;
  readonly draft?: string;
  readonly verify?: VerificationRule;
  readonly showDrafts?: true;
  readonly stop: readonly string[];
  readonly format: 'text' | 'json';
}

export interface InspectFlags extends DeviceFlags, DownloadFlags, DrafterFlags {
  readonly format: 'text' | 'json';
}
