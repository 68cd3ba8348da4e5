import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../../test/support/hub-server.js';
import { createHubWorld, singleFile, weights } from '../../../test/support/checkpoint/hub-world.js';

const world = createHubWorld();
const { download, findCached, blobs, fileRequests } = world;

describe('downloadModel', () => {
  it('lays a model out as the hub’s own libraries do', async () => {
    const commit = world.hub.add('org/tiny', singleFile);
    const folder = await download('org/tiny');
    expect(folder).toBe(join(world.repositoryFolder(), 'snapshots', commit));
    expect(readFileSync(join(world.repositoryFolder(), 'refs/main'), 'utf8')).toBe(commit);
    expect(blobs()).toEqual(
      Object.entries(singleFile).map(([path, value]) => hashOf(path, Buffer.from(value))).sort(), // prettier-ignore
    );
    for (const [path, value] of Object.entries(singleFile)) {
      const target = readlinkSync(join(folder, path));
      expect(target).toBe(`../../blobs/${hashOf(path, Buffer.from(value))}`);
      expect(readFileSync(join(folder, path))).toEqual(Buffer.from(value));
    }
    await expect(findCached('org/tiny')).resolves.toBe(folder);
  });

  it('takes what is the model and nothing else', async () => {
    const index = JSON.stringify({
      weight_map: { a: 'model-1-of-2.safetensors', b: 'parts/model-2-of-2.safetensors' },
    });
    const wanted = {
      'config.json': '{}',
      'generation_config.json': '{"b": 1}',
      'tokenizer.model': 'pieces',
      'chat_template.jinja': 'template',
      'model.safetensors.index.json': index,
      'model-1-of-2.safetensors': 'one',
      'parts/model-2-of-2.safetensors': 'two',
    };
    const unwanted = {
      'README.md': 'card',
      'consolidated.safetensors': 'the same again',
      'pytorch_model.bin': 'pickle',
      'model.Q4.gguf': 'GGUF',
      'onnx/model.onnx': 'onnx',
      'onnx/config.json': '{"c": 1}',
      'tf_model.h5': 'tf',
      'flax_model.msgpack': 'flax',
      'modeling.py': 'print(1)',
    };
    world.hub.add('org/tiny', { ...unwanted, ...wanted });
    const folder = await download('org/tiny');
    for (const [path, text] of Object.entries(wanted))
      expect(readFileSync(join(folder, path), 'utf8')).toBe(text);
    expect(blobs()).toHaveLength(Object.keys(wanted).length);
    expect(readlinkSync(join(folder, 'parts/model-2-of-2.safetensors'))).toMatch(
      /^\.\.\/\.\.\/\.\.\/blobs\//,
    );
  });

  it('takes torch files where there are no safetensors', async () => {
    world.hub.add('org/tiny', { 'config.json': '{}', 'pytorch_model.bin': 'pickle', 'tf_model.h5': 'tf' });
    expect(readdirSync(await download('org/tiny')).sort()).toEqual(['config.json', 'pytorch_model.bin']);
  });

  it('fetches nothing twice, and only what a new commit has changed', async () => {
    world.hub.add('org/tiny', singleFile);
    await download('org/tiny');
    world.hub.requests.length = 0;
    const totals: number[] = [];
    const before = await download('org/tiny', { onStart: (total) => totals.push(total) });
    expect([fileRequests(), totals]).toEqual([[], []]);
    const commit = world.hub.add('org/tiny', { ...singleFile, 'config.json': '{"a": 22}' });
    const after = await download('org/tiny', { onStart: (total) => totals.push(total) });
    expect(fileRequests()).toEqual([`hub /org/tiny/resolve/${commit}/config.json`]);
    expect(totals).toEqual([9]);
    expect(after).not.toBe(before);
    await expect(findCached('org/tiny')).resolves.toBe(after);
  });

  it('finishes what another library began, and replaces what is damaged', async () => {
    const commit = world.hub.add('org/tiny', singleFile);
    const folder = join(world.repositoryFolder(), 'snapshots', commit);
    mkdirSync(folder, { recursive: true });
    mkdirSync(join(world.repositoryFolder(), 'blobs'));
    writeFileSync(join(folder, 'config.json'), singleFile['config.json']!); // where links are not possible
    writeFileSync(join(world.repositoryFolder(), 'blobs', hashOf('model.safetensors', weights)), 'cut short');
    writeFileSync(
      join(world.repositoryFolder(), 'blobs', `${hashOf('tokenizer.json', Buffer.from('{}'))}.incomplete`),
      '{',
    );
    await download('org/tiny');
    expect(fileRequests().map((path) => path.replace(/^.*\//, ''))).toEqual([
      ...['tokenizer.json', 'model.safetensors', 'model.safetensors?signature=secret'],
    ]);
    expect(lstatSync(join(folder, 'config.json')).isFile()).toBe(true);
    expect(readFileSync(join(folder, 'model.safetensors')).equals(weights)).toBe(true);
    expect(blobs().filter((name) => name.endsWith('.incomplete'))).toHaveLength(1); // theirs
  });

  it.each([
    ['main', ['main']],
    ['refs/pr/1', ['refs']],
  ])('keeps the reference of %s', async (revision, names) => {
    world.hub.add('org/tiny', singleFile);
    await download(`org/tiny@${revision}`);
    expect(readdirSync(join(world.repositoryFolder(), 'refs'))).toEqual(names);
    await expect(findCached(`org/tiny@${revision}`)).resolves.toContain('snapshots');
  });

  it('has no reference to a commit', async () => {
    const commit = world.hub.add('org/tiny', singleFile);
    await expect(download(`org/tiny@${commit}`)).resolves.toContain(commit);
    expect(existsSync(join(world.repositoryFolder(), 'refs'))).toBe(false);
  });

  it('tells how far it is', async () => {
    world.hub.add('org/tiny', singleFile);
    const done: number[] = [];
    let total = 0;
    await download('org/tiny', {
      onStart: (bytes) => (total = bytes),
      onProgress: ({ doneBytes }) => done.push(doneBytes),
    });
    expect(total).toBe(8 + 2 + weights.byteLength);
    expect(done.at(-1)).toBe(total);
    expect(done).toEqual([...done].sort((left, right) => left - right));
  });

  it('does not begin what the disk has no room for', async () => {
    world.hub.add('org/tiny', singleFile);
    await expect(download('org/tiny', { measureRoom: () => Promise.resolve(100_009) })).rejects.toMatchObject(
      {
        message: `org/tiny needs 100 KB more in ${join(world.repositoryFolder(), 'blobs')}, where 100 KB are free.`,
        hint: expect.stringContaining('HF_HUB_CACHE') as string,
      },
    );
    expect([fileRequests(), blobs()]).toEqual([[], []]);
    await download('org/tiny', { measureRoom: () => Promise.resolve(100_010) });
  });

  it('leaves two at once with one whole model', async () => {
    world.hub.add('org/tiny', singleFile);
    const folders = await Promise.all([download('org/tiny'), download('org/tiny'), download('org/tiny')]);
    expect(new Set(folders).size).toBe(1);
    expect(blobs()).toHaveLength(3);
    expect(readFileSync(join(folders[0], 'model.safetensors')).equals(weights)).toBe(true);
    expect(readdirSync(folders[0])).toHaveLength(3);
  });
});
