// Faults that the quick tests have to notice, two or three in each layer, from the bottom up. A mutation replaces one
// piece of text, which must occur exactly once in its file: a stale one is refused, so change it with the source.

/**
 * @typedef {object} Mutation
 * @property {string} name what is broken
 * @property {string} file
 * @property {string} search
 * @property {string} replace
 * @property {readonly string[]} tests quick test files that are most likely to fail; they run first
 */

/** @type {readonly Mutation[]} */
export const mutations = [
  // core
  {
    name: 'a random stream ignores its seed',
    file: 'src/core/random.ts',
    search: 'JSON.stringify([seed, ...names])',
    replace: 'JSON.stringify([0, ...names])',
    tests: ['src/core/random.test.ts'],
  },
  {
    name: 'drawing without replacement replaces',
    file: 'src/core/random.ts',
    search: 'if (count > 1) remaining[index] = 0;',
    replace: '',
    tests: ['src/draft/tree/grow-tree.test.ts'],
  },
  // graph
  {
    name: 'the gradient of a quotient has the wrong sign',
    file: 'src/graph/operations/elementwise.ts',
    search: 'reduceTo(negate(divide(multiply(g, a!), multiply(b!, b!))), b!.shape)',
    replace: 'reduceTo(divide(multiply(g, a!), multiply(b!, b!)), b!.shape)',
    tests: ['test/conformance/runtime-gradients.tiers.test.ts'],
  },
  {
    name: 'two transposes are folded in the wrong order',
    file: 'src/graph/simplify.ts',
    search: 'order.map((axis) => attributes.order[axis]!)',
    replace: 'attributes.order.map((axis) => order[axis]!)',
    tests: ['src/graph/simplify.test.ts'],
  },
  // runtime
  {
    name: 'ONNX pads before instead of after',
    file: 'src/runtime/onnx/lowering.ts',
    search: '[...at(before), ...at(after)]',
    replace: '[...at(after), ...at(before)]',
    tests: ['test/conformance/runtime.test.ts'],
  },
  {
    name: 'ONNX Runtime maps every weight from the start of its file',
    file: 'src/runtime/onnx/weight-placement.ts',
    search: 'dtype, { ...place, location }',
    replace: 'dtype, { ...place, location, offsetBytes: 0 }',
    tests: ['src/runtime/onnx/weight-placement.test.ts'],
  },
  {
    name: 'CUDA memory is reused while it is still read',
    file: 'src/runtime/cuda/programs/run-layout.ts',
    search: 'other.lifetime.until < from',
    replace: 'other.lifetime.until <= from',
    tests: ['src/runtime/cuda/programs/memory-plan.test.ts'],
  },
  {
    name: 'a damaged compiled kernel is loaded',
    file: 'src/runtime/cuda/driver/kernel-compiler.ts',
    search: 'if (!sha256(code).equals(bytes.subarray(0, hashBytes))) return undefined;',
    replace: '',
    tests: ['src/runtime/cuda/driver/kernel-store.test.ts'],
  },
  {
    name: 'attention sums over columns where they lie, not in the order of what a row sees',
    file: 'src/runtime/cuda/kernels/seen-columns-kernel.ts',
    search: "'(long long)row * (columns + 1) + place'",
    replace: "'(long long)row * (columns + 1) + 1 + before + threadIdx.x'",
    tests: ['test/conformance/cuda-small-batch-attention.test.ts'],
  },
  {
    name: 'the warps of many rows are joined in another order',
    file: 'src/runtime/cuda/kernels/tile-product-kernel.ts',
    search: 'total${m} += sums[${m}][w][own][spot];',
    replace: 'total${m} += sums[${m}][rows > 1 ? ${warps} - 1 - w : w][own][spot];',
    tests: ['test/conformance/cuda-small-batch.tiers.test.ts'],
  },
  {
    name: 'the norm of the CUDA kernels ignores its epsilon',
    file: 'src/runtime/cuda/kernels/kernels.ts',
    search: 'blockSum(squares) / width + ${Math.fround(epsilon)}f)',
    replace: 'blockSum(squares) / width)',
    tests: ['test/conformance/cuda-runtime.tiers.test.ts'],
  },
  {
    name: 'the interpreter reads the wrong key-value head',
    file: 'test/oracle/attention-kernel.ts',
    search: 'Math.floor((head * keyValueHeads) / heads)',
    replace: 'head % keyValueHeads',
    tests: ['test/conformance/runtime.test.ts'],
  },
  {
    name: 'the interpreter takes the last of equal values first',
    file: 'test/oracle/kernels.ts',
    search: '|| a - b)',
    replace: '|| b - a)',
    tests: ['test/oracle/interpreter.test.ts'],
  },
  // checkpoint
  {
    name: 'offsets of safetensors files are not checked',
    file: 'src/checkpoint/safetensors/safetensors.ts',
    search: 'checkCoverage(file, dataStart, tensors);',
    replace: '',
    tests: ['src/checkpoint/safetensors/safetensors.test.ts'],
  },
  {
    name: 'a pickle may name any global',
    file: 'src/checkpoint/torch/pickle-value.ts',
    search: 'if (known.has(name)) return name;',
    replace: "if (name !== '') return name;",
    tests: ['src/checkpoint/torch/torch-zip.test.ts'],
  },
  {
    name: 'a pickle may use any opcode',
    file: 'src/checkpoint/torch/pickle.ts',
    search: 'else\n        throw refuse(',
    replace: 'else if (opcode === 0)\n        throw refuse(',
    tests: ['src/checkpoint/torch/torch-zip.test.ts'],
  },
  {
    name: 'the checksum of a download is not compared',
    file: 'src/checkpoint/hub/hub-blob.ts',
    search: 'if (found !== file.hash)',
    replace: 'if (found.length !== file.hash.length)',
    tests: ['src/checkpoint/hub/hub-download.test.ts', 'src/checkpoint/hub/hub-refusals.test.ts'],
  },
  {
    name: 'the checksum of cached weights is not compared',
    file: 'src/checkpoint/cache/cache-file.ts',
    search: '(await hashBeginning(file, footer.dataBytes)) === footer.sha256',
    replace: "(await hashBeginning(file, footer.dataBytes)) !== ''",
    tests: ['src/checkpoint/cache/cache-check.test.ts', 'src/checkpoint/cache/weight-cache.test.ts'],
  },
  // text
  {
    name: 'a stop string that arrives in pieces is not honored',
    file: 'src/text/text-stream.ts',
    search: 'held.length - openTailLength(held, stops)',
    replace: 'held.length',
    tests: ['src/text/stop-strings.test.ts'],
  },
  {
    name: 'the chat template loses the beginning-of-sequence token',
    file: 'src/text/template/chat-template.ts',
    search: '    ...template.specialTokens,\n',
    replace: '',
    tests: ['src/text/template/chat-template.test.ts'],
  },
  {
    name: 'half of a character is streamed',
    file: 'src/text/text-stream.ts',
    search: 'text.endsWith(replacement) ? 1 : 0',
    replace: '0',
    tests: ['src/text/text-stream.test.ts'],
  },
  // model
  {
    name: 'the causal mask is off by one',
    file: 'src/model/attention-inputs.ts',
    search: 'mask.fill(blocked, seen + row + 1, start + width)',
    replace: 'mask.fill(blocked, seen + row + 2, start + width)',
    tests: ['src/model/attention-inputs.test.ts'],
  },
  {
    name: 'the rotary base of the config is ignored',
    file: 'src/model/rotary/rotary-settings.ts',
    search: 'rotaryBase: inner ?? outer ?? defaultBase',
    replace: 'rotaryBase: inner ?? defaultBase',
    tests: ['src/model/rotary/rotary-settings.test.ts'],
  },
  {
    name: 'compacting the KV cache is off by one',
    file: 'src/model/cache/kv-cache.ts',
    search: 'pool.write(lane, start + 1, rows, picks);',
    replace: 'pool.write(lane, start, rows, picks);',
    tests: ['src/model/cache/cache-pool.test.ts'],
  },
  // draft
  {
    name: 'nodes of a static tree get the wrong parent',
    file: 'src/draft/tree/tree-shapes.ts',
    search: 'nodes.get(path.slice(0, -1).join())',
    replace: 'nodes.get(path.slice(0, -2).join())',
    tests: ['src/draft/tree/tree-shapes.test.ts'],
  },
  {
    name: 'a drafted node sees its siblings',
    file: 'src/draft/programs/draft-memory.ts',
    search: 'if (ancestors.has(other))',
    replace: 'if (other < node)',
    tests: ['src/draft/programs/draft-attention.test.ts'],
  },
  {
    name: 'rows of the last draft stay in the cache of the drafter',
    file: 'src/draft/programs/draft-memory.ts',
    search: 'this.attention.reset();',
    replace: '',
    tests: ['src/draft/programs/draft-memory.test.ts'],
  },
  {
    name: 'an MTP module reads the first token of a text',
    file: 'src/draft/mtp/mtp.ts',
    search: 'greater(perRow, 1.5)',
    replace: 'greater(perRow, 0.5)',
    tests: ['test/published/drafts.tiers.test.ts'],
  },
  // decode
  {
    name: 'rejection sampling draws without the residual',
    file: 'src/decode/verification/node-chances.ts',
    search: 'subtractDistribution(this.left, draft, draftMass, this.residual) ?? this.whole',
    replace: 'this.whole',
    tests: ['src/decode/verification/verification.test.ts'],
  },
  {
    name: 'the bonus token after the accepted path is dropped',
    file: 'src/decode/verification/verification.ts',
    search: 'nextToken: targetArgmax[node]!',
    replace: 'nextToken: targetArgmax[0]!',
    tests: ['src/decode/verification/verification.test.ts'],
  },
  {
    name: 'the drafter reads the states of rejected drafts',
    file: 'src/decode/sequence.ts',
    search: 'pickRows(model.runtime, states, accepted)',
    replace: 'pickRows(model.runtime, states, Int32Array.from(accepted, (_, row) => row))',
    tests: ['test/golden/drafters.tiers.test.ts'],
  },
  {
    name: 'mean accepted length lacks the bonus token',
    file: 'src/decode/acceptance.ts',
    search: '1 + accepted / steps,',
    replace: 'accepted / steps,',
    tests: ['src/decode/acceptance.test.ts'],
  },
  {
    name: 'a joined tree tries a shared node once',
    file: 'src/draft/tree/token-tree.ts',
    search: 'const joined = law === undefined ? undefined : firstLaw + law;',
    replace:
      'const joined = law === undefined ? undefined : firstLaw + law; if (trials[placed[parent]].some((trial) => trial.node === placed[node])) continue;',
    tests: ['src/draft/tree/token-tree.test.ts'],
  },
  {
    name: 'the answer of one sequence in a batch ends with the failure of another',
    file: 'src/decode/shared-passes.ts',
    search: 'else for (const ask of group) await runTogether([ask]);',
    replace: 'else for (const ask of group) ask.reject(cause);',
    tests: ['src/decode/shared-passes.test.ts'],
  },
  // measure
  {
    name: 'p-values are not corrected by Holm',
    file: 'src/measure/statistics.ts',
    search: '(order.length - rank) * pValues[index]!',
    replace: 'pValues[index]!',
    tests: ['src/measure/holm.test.ts'],
  },
  {
    name: 'an interval makes no allowance for few prompts',
    file: 'src/measure/statistics.ts',
    search: '(studentQuantile(Math.max(1, n - 2)) + tailAllowance / n)',
    replace: '1.96',
    tests: ['src/measure/interval.test.ts'],
  },
  // audit
  {
    name: 'the veto is inverted',
    file: 'src/audit/search/search-problem.ts',
    search: 'Math.max(0, divergence / epsilon - 1)',
    replace: 'Math.max(0, 1 - divergence / epsilon)',
    tests: ['src/audit/search/search.test.ts'],
  },
  {
    name: 'the projection is skipped',
    file: 'src/audit/search/projection.ts',
    search: "if (projection.kind === 'none') return degradation;",
    replace: "if (projection.kind !== 'subspace') return degradation;",
    tests: ['src/audit/search/projection.test.ts'],
  },
  {
    name: 'the KL divergence has the wrong direction',
    file: 'src/audit/search/objectives.ts',
    search: "return direction === 'clean-to-suffixed'",
    replace: "return direction !== 'clean-to-suffixed'",
    tests: ['src/audit/search/objectives.test.ts'],
  },
  {
    name: 'a run is opened without its lock',
    file: 'src/runs/run-lock.ts',
    search: 'if (claim(path, own)) return own;',
    replace: 'if (claim(path, own) || existsSync(path)) return own;',
    tests: ['src/runs/run-lock.test.ts'],
  },
  {
    name: 'a resumed run ignores finished units',
    file: 'src/runs/run-folder.ts',
    search: 'this.units = units;',
    replace: '',
    tests: ['src/runs/run-folder.test.ts'],
  },
  {
    name: 'the undirected control follows the gradient',
    file: 'src/audit/settings.ts',
    search: "searchMode: settings.search === 'random' ? 'blind' : 'unguided',",
    replace: '',
    tests: ['test/end-to-end/audit-ngram.test.ts'],
  },
  // train
  {
    name: 'AdamW lacks its bias correction',
    file: 'src/train/loop/adamw.ts',
    search: 'firstCorrection: scalar(1 - firstDecay ** (update + 1))',
    replace: 'firstCorrection: scalar(1)',
    tests: ['src/train/loop/adamw.test.ts'],
  },
  {
    name: 'packed texts see the texts before them',
    file: 'src/train/data/batches.ts',
    search: 'Math.max(start, position - window + 1)',
    replace: 'Math.max(0, position - window + 1)',
    tests: ['src/train/data/text-batch.test.ts'],
  },
  {
    name: 'resumed training loses the moments of AdamW',
    file: 'src/train/loop/adamw.ts',
    search: '    this.write(values);',
    replace: "    this.write(new Map([...values].filter(([key]) => key.startsWith('parameter'))));",
    tests: ['src/train/loop/trainer.test.ts'],
  },
  // report
  {
    name: 'texts in the HTML report are not escaped',
    file: 'src/report/markup.ts',
    search: 'return escapeMarkup(showInvisible(content));',
    replace: 'return showInvisible(content);',
    tests: ['src/report/audit/audit-report.test.ts'],
  },
  {
    name: 'a failed gate exits with 0',
    file: 'src/report/gate.ts',
    search: 'exitCode: failed.length > 0 ? 100',
    replace: 'exitCode: failed.length > 0 ? 0',
    tests: ['src/report/audit/verdict.test.ts'],
  },
  {
    name: 'an undecided gate passes',
    file: 'src/report/audit/verdict.ts',
    search: 'return passes(worstEnd)',
    replace: 'return passes(value.estimate)',
    tests: ['src/report/audit/verdict.test.ts'],
  },
  {
    name: 'an attack needs to beat only its weakest control',
    file: 'src/report/audit/evidence.ts',
    search: 'tests.toSorted(byPValue).at(-1)',
    replace: 'tests.toSorted(byPValue).at(0)',
    tests: ['src/report/audit/verdict.test.ts'],
  },
  // serve
  {
    name: 'any key is admitted',
    file: 'src/serve/access.ts',
    search: 'if (timingSafeEqual(entry.hash, hash)) found = entry.name;',
    replace: 'if (entry.hash.length === hash.length) found = entry.name;',
    tests: ['src/serve/access.test.ts', 'src/serve/app.test.ts'],
  },
  {
    name: 'the server ignores the seed of a request',
    file: 'src/serve/answer-request.ts',
    search: 'seed: seed ?? undefined,',
    replace: 'seed: undefined,',
    tests: ['src/serve/app.test.ts'],
  },
  {
    name: 'the server answers requests for any host name',
    file: 'src/serve/app.ts',
    search: '!hostNames.includes(name)',
    replace: 'hostNames.length === 0',
    tests: ['src/serve/app.test.ts'],
  },
  // guard
  {
    name: 'the guard passes on the proxy’s credentials',
    file: 'src/guard/proxy/message-headers.ts',
    search: "'proxy-authorization', ",
    replace: '',
    tests: ['src/guard/proxy/message-headers.test.ts'],
  },
  {
    name: 'the guard passes on headers that Connection lists',
    file: 'src/guard/proxy/message-headers.ts',
    search: ' || listed.has(name)',
    replace: '',
    tests: ['src/guard/proxy/message-headers.test.ts'],
  },
  {
    name: 'header fields beyond two thousand hide the length of a body',
    file: 'src/guard/proxy/proxy.ts',
    search: 'server.maxHeadersCount = 0;',
    replace: '',
    tests: ['src/guard/proxy/hostile-http.test.ts'],
  },
  {
    name: 'a response that breaks off looks complete to HTTP/1.0',
    file: 'src/guard/proxy/exchange.ts',
    search: 'else if (response.useChunkedEncodingByDefault) socket',
    replace: 'else if (socket.writable) socket',
    tests: ['src/guard/proxy/hostile-http.test.ts'],
  },
  {
    name: 'the first of several tenant headers counts',
    file: 'src/guard/proxy/tenant.ts',
    search: 'values.at(-1)',
    replace: 'values.at(0)',
    tests: ['src/guard/proxy/no-way-around.test.ts'],
  },
  {
    name: 'unknown paths are not watched',
    file: 'src/guard/proxy/request-router.ts',
    search: 'const isWatched = !harmless.has(path);',
    replace: "const isWatched = normalizePath(path).startsWith('/v1/');",
    tests: ['src/guard/proxy/no-way-around.test.ts'],
  },
  // cli
  {
    name: 'the exit code is always 0',
    file: 'src/cli/program.ts',
    search: 'return context.exitCode;',
    replace: 'return exitCodes.success;',
    tests: ['test/end-to-end/cli-compare.test.ts'],
  },
  {
    name: 'generate ignores --seed',
    file: 'src/cli/generate.ts',
    search: '        seed,\n        stopStrings',
    replace: '        seed: 0,\n        stopStrings',
    tests: ['test/end-to-end/cli-generate.test.ts'],
  },
  {
    name: 'terminal escapes of a model are printed',
    file: 'src/cli/terminal.ts',
    search: 'code === undefined ? replacement :',
    replace: 'code === undefined ? _ :',
    tests: ['src/cli/terminal.test.ts'],
  },
];
