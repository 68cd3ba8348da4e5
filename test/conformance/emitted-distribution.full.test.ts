import { describeEmittedDistribution } from './emitted-distribution.js';

describeEmittedDistribution(120_000);
