import { oneOfEachSystem } from '../support/tiny-drafters.js';
import { describeTrainingGradients } from './training-gradients.js';

describeTrainingGradients(oneOfEachSystem, 'soft');
