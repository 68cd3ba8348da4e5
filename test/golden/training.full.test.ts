import { describeGoldenTraining } from './training.js';

describeGoldenTraining('packed');
