/** What the layer ids of an EAGLE-3 head can mean: the inputs of these layers or their outputs (taps.ts). */
export const tapConventions = ['inputs', 'outputs'] as const;
export type TapConvention = (typeof tapConventions)[number];
