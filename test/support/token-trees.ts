import type { TokenTree } from '../../src/draft/tree/token-tree.js';
import { pathTo } from '../../src/draft/tree/token-tree.js';

export function childrenOf({ parents }: Pick<TokenTree, 'parents'>, node: number): number[] {
  const children: number[] = [];
  for (let child = node + 1; child < parents.length; child++) {
    if (parents[child] === node) children.push(child);
  }
  return children;
}

export function leafPaths(tree: Pick<TokenTree, 'parents' | 'depths'>): number[][] {
  const isParent = new Uint8Array(tree.parents.length);
  for (let node = 1; node < isParent.length; node++) isParent[tree.parents[node]!] = 1;
  const paths: number[][] = [];
  for (let node = 0; node < isParent.length; node++) if (isParent[node] === 0) paths.push(pathTo(tree, node));
  return paths;
}
