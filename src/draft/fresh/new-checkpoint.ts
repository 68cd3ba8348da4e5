import { copyFile, open } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describingNames } from '../../checkpoint/checkpoint-folder.js';
import type { TensorSource } from '../../checkpoint/tensor-source.js';
import { writeSafetensors } from '../../checkpoint/safetensors/write-safetensors.js';
import { explainWriting, writeWholeFile, writeWholeFolder } from '../../checkpoint/written-folder.js';

export interface NewCheckpoint {
  readonly config: Readonly<Record<string, unknown>>;
  readonly file: string;
  readonly tensors: readonly TensorSource[];
  /** Missing files are skipped. */
  readonly copies?: CopiedFiles | undefined;
}

export interface CopiedFiles {
  readonly folder: string;
  readonly names: readonly string[];
}

export function describingFiles(folder: string): CopiedFiles {
  return { folder, names: describingNames.filter((name) => name !== 'config.json') };
}

export async function writeCheckpoint(
  folder: string,
  { config, file, tensors, copies }: NewCheckpoint,
): Promise<void> {
  await writeWholeFolder(folder, async (fresh) => {
    await writeSafetensors(join(fresh, file), tensors);
    if (copies !== undefined) await copyFiles(copies, fresh);
    const text = `${JSON.stringify(config, undefined, 2)}\n`;
    await writeWholeFile(join(fresh, 'config.json'), (append) => append(Buffer.from(text)));
  });
}

async function copyFiles({ folder, names }: CopiedFiles, to: string): Promise<void> {
  for (const name of names.filter((name) => existsSync(join(folder, name)))) {
    const path = join(to, name);
    await explainWriting(path, async () => {
      await copyFile(join(folder, name), path);
      const file = await open(path, 'r+');
      try {
        await file.sync();
      } finally {
        await file.close();
      }
    });
  }
}
