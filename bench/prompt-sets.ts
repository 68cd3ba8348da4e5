import { join } from 'node:path';
import { packageRoot } from '../src/core/package-files.js';

export const promptSets = ['humaneval', 'gsm8k', 'mt-bench'] as const;

export const promptFolder = join(packageRoot, '../shared/data');
