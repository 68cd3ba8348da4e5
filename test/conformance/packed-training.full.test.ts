import { describePackedTraining, packedObjectives } from './packed-training.js';

describePackedTraining(
  ['Medusa, torch file', 'Hydra, one layer', 'Hydra++', 'EAGLE, torch file, with bias', "EAGLE-3 with the target's vocabulary"], // prettier-ignore
  packedObjectives,
);
describePackedTraining(['draft model', 'EAGLE-3 with d2t'], packedObjectives.slice(1));
