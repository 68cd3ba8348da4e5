#!/usr/bin/env node
import { run } from './program.js';
import { openProcessTerminal } from './terminal.js';

process.exitCode = await run(process.argv.slice(2), openProcessTerminal());
