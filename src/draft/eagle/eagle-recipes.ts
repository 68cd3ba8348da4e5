import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { matrixRecipe, projectionRecipe, vectorRecipe } from '../../model/weights.js';

/** One norm over all taps, or one per tap. */
export type FusionNorm = 'none' | 'joined' | 'each';

interface TapSizes {
  readonly stateWidth: number;
  readonly tapWidth: number;
  readonly taps: number;
}

export function fusionNormRecipes(
  scope: string,
  prefix: string,
  norm: FusionNorm,
  { stateWidth, tapWidth, taps }: TapSizes,
): WeightRecipe[] {
  if (norm === 'none') return [];
  if (norm === 'joined')
    return [vectorRecipe(`${scope}input_norm.weight`, `${prefix}input_norm.weight`, stateWidth)];
  return Array.from({ length: taps }, (_, tap) =>
    vectorRecipe(`${scope}fc_norm.${tap}.weight`, `${prefix}fc_norm.${tap}.weight`, tapWidth),
  );
}

export function embeddingRecipes(
  scope: string,
  prefix: string,
  rows: number | undefined,
  hiddenSize: number,
): WeightRecipe[] {
  if (rows === undefined) return [];
  return [matrixRecipe(`${scope}embed_tokens.weight`, `${prefix}embed_tokens.weight`, [rows, hiddenSize])];
}

export function linearRecipes(
  name: string,
  source: string,
  inputSize: number,
  outputSize: number,
  hasBias: boolean,
): WeightRecipe[] {
  return [
    projectionRecipe(`${name}.weight`, `${source}.weight`, inputSize, outputSize),
    ...(hasBias ? [vectorRecipe(`${name}.bias`, `${source}.bias`, outputSize)] : []),
  ];
}
