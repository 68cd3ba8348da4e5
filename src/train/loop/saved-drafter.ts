/**
 * Saves a trained drafter in its original layout, by running the recipes that read its weights backwards. Tensors that no
 * recipe reads, untrained weights, and the describing files are copied from the folder that training started with.
 */
import { basename } from 'node:path';
import { openCheckpoint } from '../../checkpoint/open-checkpoint.js';
import { readFloat32 } from '../../checkpoint/read-tensor.js';
import { type Checkpoint, type StoredTensor, formatShape, quote } from '../../checkpoint/stored-tensor.js';
import { type TensorSource, floatSource, storedSource } from '../../checkpoint/tensor-source.js';
import { type WeightRecipe, cutPart, resolveRecipes } from '../../checkpoint/weight-recipe.js';
import { restoreFolder } from '../../checkpoint/written-folder.js';
import { MistletoeError } from '../../core/errors.js';
import { misfit, refuseAtOnce } from '../../draft/reading/checks.js';
import type { ReadingOptions } from '../../draft/draft-system.js';
import { recogniseCheckpoint, systemTitles } from '../../draft/systems.js';
import { spellTaps } from '../../draft/eagle/taps.js';
import { embeddingName, outputName } from '../../model/weights.js';
import { describingFiles, writeCheckpoint } from '../../draft/fresh/new-checkpoint.js';
import { countValues } from './adamw.js';

export interface SaveRequest extends ReadingOptions {
  readonly from: string;
  /** A drafter at this path is replaced as a whole; anything else is refused. */
  readonly to: string;
  /** By the graph's names; other weights stay as they are. */
  readonly values: ReadonlyMap<string, Float32Array>;
}

export async function saveDrafter(request: SaveRequest): Promise<void> {
  const { from, to, values, taps } = request;
  await restoreFolder(from);
  const checkpoint = await openCheckpoint(from);
  const { system, layout } = recogniseCheckpoint(checkpoint);
  if (system === undefined) throw misfit(from, `has ${layout}`, `Supported: ${systemTitles.join(', ')}.`);
  const { recipes } = system.describe(checkpoint, refuseAtOnce, { taps });
  resolveRecipes(checkpoint, recipes);
  const trained = assignValues(checkpoint, recipes, values);
  const written = [...checkpoint.tensors.values()].filter(({ name }) => !isStale(name, checkpoint, trained));
  await writeCheckpoint(to, {
    config: describeConfig(checkpoint, taps),
    file: nameWeights(checkpoint),
    torchFile: system.training?.torchFile,
    tensors: written.map((tensor) => writeTensor(tensor, trained.get(tensor.name))),
    copies: describingFiles(checkpoint.folder),
  });
}

interface TrainedPart {
  readonly recipe: WeightRecipe;
  readonly place: number;
  /** The whole weight; undefined if untrained. */
  readonly values: Float32Array | undefined;
}

function assignValues(
  { folder }: Checkpoint,
  recipes: readonly WeightRecipe[],
  values: ReadonlyMap<string, Float32Array>,
): ReadonlyMap<string, TrainedPart> {
  const scope = findScope(folder, recipes, [...values.keys()]);
  const parts = new Map<string, TrainedPart>();
  for (const recipe of recipes) {
    const given = values.get(`${scope}${recipe.name}`);
    if (given !== undefined && given.length !== countValues(recipe.shape)) {
      throw misfit(
        folder,
        `has ${quote(recipe.name)} of ${formatShape(recipe.shape)}, but ${given.length} values were given for it`,
        'They belong to another drafter.',
      );
    }
    for (const [place, { tensor }] of recipe.parts.entries()) {
      if (parts.has(tensor))
        throw new MistletoeError('shape', `Two weights of the drafter in ${folder} read ${quote(tensor)}.`);
      parts.set(tensor, { recipe, place, values: given });
    }
  }
  return parts;
}

/** The prefix of the graph's names, such as `eagle3.`. */
function findScope(folder: string, recipes: readonly WeightRecipe[], keys: readonly string[]): string {
  const names = new Set(recipes.map(({ name }) => name));
  const known = (scope: string): number =>
    keys.filter((key) => key.startsWith(scope) && names.has(key.slice(scope.length))).length;
  const [first = ''] = keys;
  const ends = [0, ...[...first.matchAll(/\./g)].map(({ index }) => index + 1)];
  const scopes = ends.map((end) => first.slice(0, end));
  const scope = scopes.find((each) => known(each) === keys.length);
  if (scope !== undefined) return scope;
  const nearest = scopes.reduce((best, each) => (known(each) > known(best) ? each : best));
  const stranger = keys.find((key) => !key.startsWith(nearest) || !names.has(key.slice(nearest.length)));
  throw misfit(folder, `has no weight ${quote(stranger!)}`, 'The values belong to another drafter.');
}

/** After training, a second copy of a tied embedding would differ; loaders refuse a checkpoint with both. */
function isStale(name: string, { config }: Checkpoint, trained: ReadonlyMap<string, TrainedPart>): boolean {
  return (
    name === outputName &&
    config.tie_word_embeddings === true &&
    !trained.has(outputName) &&
    trained.get(embeddingName)?.values !== undefined
  );
}

/** Weights that a recipe reads become float32. */
function writeTensor(tensor: StoredTensor, part: TrainedPart | undefined): TensorSource {
  const { name, shape } = tensor;
  if (part === undefined) return storedSource(tensor);
  const { recipe, place, values } = part;
  return floatSource({ name, shape, dtype: 'F32' }, () =>
    values === undefined ? readFloat32(tensor) : cutPart(values, recipe, place),
  );
}

/** config.json must name the dtype that was written, or loaders would round the weights. */
function describeConfig(checkpoint: Checkpoint, taps: SaveRequest['taps']): Record<string, unknown> {
  const config = taps === undefined ? checkpoint.config : spellTaps(checkpoint, taps);
  const named = ['torch_dtype', 'dtype'].filter((key) => config[key] !== undefined);
  return { ...config, ...Object.fromEntries(named.map((key) => [key, 'float32'])) };
}

function nameWeights({ files }: Checkpoint): string {
  const [file, ...others] = files.map((path) => basename(path));
  if (file === undefined || others.length > 0 || file === 'pytorch_model.bin') return 'model.safetensors';
  return file.replace(/\.(pt|bin)$/, '.safetensors');
}
