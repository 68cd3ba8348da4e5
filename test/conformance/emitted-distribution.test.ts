import { describeEmittedDistribution } from './emitted-distribution.js';

describeEmittedDistribution(12_000);
