import { spawnSync } from 'node:child_process';
import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { hostTag } from '../core/processes.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { restoreFolder, writeWholeFolder } from './written-folder.js';

let parent: string;
let place: string;
let remove: () => void;
beforeEach(() => {
  ({ path: parent, remove } = makeTemporaryFolder());
  place = join(parent, 'drafter');
});
afterEach(() => {
  remove();
});

const fillWith =
  (text: string) =>
  (folder: string): Promise<void> => {
    writeFileSync(join(folder, 'config.json'), text);
    return Promise.resolve();
  };
const contents = (): string => readFileSync(join(place, 'config.json'), 'utf8');

/** A name that a process which has ended gave to its files. */
function leftoversOfDeadProcesses(kind: 'old' | 'new'): string {
  const { pid } = spawnSync(process.execPath, ['--version']);
  const path = `${place}.${pid}.${hostTag()}.0123456789abcdef.${kind}`;
  mkdirSync(path);
  writeFileSync(join(path, 'config.json'), kind);
  return path;
}

describe('writeWholeFolder', () => {
  it('makes the folder with all above it, and replaces it with all that it held', async () => {
    place = join(parent, 'a', 'b', 'drafter');
    await writeWholeFolder(place, fillWith('first'));
    writeFileSync(join(place, 'pytorch_model.bin'), '');
    await writeWholeFolder(place, fillWith('second'));
    expect(contents()).toBe('second');
    expect(readdirSync(place)).toEqual(['config.json']);
    expect(readdirSync(join(parent, 'a', 'b'))).toEqual(['drafter']);
  });

  it('keeps the old one, and nothing else, where filling fails', async () => {
    await writeWholeFolder(place, fillWith('first'));
    const failing = writeWholeFolder(place, async (folder) => {
      await fillWith('second')(folder);
      throw new MistletoeError('runtime', `the disk of ${folder} is full`, { hint: 'Make room.' });
    });
    // The user never asked for the folder beside it.
    await expect(failing).rejects.toMatchObject({
      message: `the disk of ${place} is full`,
      hint: 'Make room.',
    });
    expect(contents()).toBe('first');
    expect(readdirSync(parent)).toEqual(['drafter']);
  });

  it('replaces a link, and leaves what it leads to', async () => {
    const link = join(parent, 'link');
    await writeWholeFolder(place, fillWith('first'));
    symlinkSync(place, link);
    await writeWholeFolder(link, fillWith('second'));
    expect(contents()).toBe('first');
    expect(lstatSync(link).isDirectory()).toBe(true);
    expect(readdirSync(parent)).toEqual(['drafter', 'link']);
  });

  it('leaves alone what is no checkpoint', async () => {
    mkdirSync(place);
    writeFileSync(join(place, 'thesis.txt'), 'years of work');
    await expect(writeWholeFolder(place, fillWith('x'))).rejects.toThrow(/holds "thesis.txt"/);
    expect(readdirSync(place)).toEqual(['thesis.txt']);
    const file = join(parent, 'file');
    writeFileSync(file, '');
    await expect(writeWholeFolder(file, fillWith('x'))).rejects.toThrow(/is a file/);
    await expect(writeWholeFolder(join(file, 'x'), fillWith('x'))).rejects.toThrow(/could not be written/);
    expect(readdirSync(parent)).toEqual(['drafter', 'file']);
  });
});

describe('after a kill', () => {
  it('while the new one was written, the old one is there and the rest goes', async () => {
    await writeWholeFolder(place, fillWith('first'));
    leftoversOfDeadProcesses('new');
    await restoreFolder(place);
    expect(contents()).toBe('first');
    expect(readdirSync(parent)).toEqual(['drafter']);
  });

  it('between the two renames, the old one comes back', async () => {
    leftoversOfDeadProcesses('old');
    leftoversOfDeadProcesses('new');
    await restoreFolder(place);
    expect(contents()).toBe('old');
    expect(readdirSync(parent)).toEqual(['drafter']);
  });

  it('before the old one was removed, the new one stays', async () => {
    await writeWholeFolder(place, fillWith('second'));
    leftoversOfDeadProcesses('old');
    await restoreFolder(place);
    expect(contents()).toBe('second');
    expect(readdirSync(parent)).toEqual(['drafter']);
  });

  it('leaves what a running process writes, and what only looks alike', async () => {
    mkdirSync(`${place}.${process.ppid}.${hostTag()}.0123456789abcdef.new`);
    mkdirSync(`${place}.old`);
    await restoreFolder(place);
    expect(readdirSync(parent)).toHaveLength(2);
  });

  it('knows its own from those of a dead process that had the same id', async () => {
    await writeWholeFolder(place, async (folder) => {
      mkdirSync(`${place}.${process.pid}.${hostTag()}.0123456789abcdef.new`);
      await restoreFolder(place);
      expect(readdirSync(parent)).toEqual([basename(folder)]);
      await fillWith('new')(folder);
    });
    expect(contents()).toBe('new');
  });

  it('takes back the old one of another host, where no other is there, and touches nothing else of it', async () => {
    const foreign = `${place}.1.${'0'.repeat(16)}.${'1'.repeat(16)}`;
    mkdirSync(`${foreign}.old`);
    mkdirSync(`${foreign}.new`);
    await restoreFolder(place);
    expect(readdirSync(parent).sort()).toEqual(['drafter', basename(`${foreign}.new`)]);
  });
});
