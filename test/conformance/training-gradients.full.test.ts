import { oneOfEachSystem, otherLayouts } from '../support/tiny-drafters.js';
import { describeTrainingGradients } from './training-gradients.js';

// Heads in the target's own shards have no drafter folder to train into.
const trainable = otherLayouts.filter(({ name }) => !name.includes('shards'));
describeTrainingGradients(trainable, 'soft');
describeTrainingGradients([...oneOfEachSystem, ...trainable], 'tokens');
