/**
 * A drafter that died or was deployed wrongly: requests of at least half of the recent tenants collapse. One tenant that
 * sends most of the requests is not everyone, so each tenant counts once, with its latest conclusive request.
 */
import { RecentMap } from '../state/recent-map.js';

export interface SavedEveryone {
  readonly latest: readonly (readonly [string, boolean])[];
  readonly isDown: boolean;
}

const recentTenants = 64;
const minTenants = 5;
const downShare = 0.5;
const upShare = 0.25;

export class EveryoneTest {
  private latest = new RecentMap<boolean>(recentTenants);
  private isDown = false;

  /** The collapsed and the recent tenants, when half of them are reached for the first time. */
  learn(
    tenant: string,
    isCollapsed: boolean,
  ): { readonly count: number; readonly tenants: number } | undefined {
    this.latest.set(tenant, isCollapsed);
    const tenants = this.latest.size;
    const count = [...this.latest.entries()].filter(([, collapsed]) => collapsed).length;
    if (this.isDown) {
      this.isDown = count > upShare * tenants;
      return undefined;
    }
    this.isDown = tenants >= minTenants && count >= downShare * tenants;
    return this.isDown ? { count, tenants } : undefined;
  }

  save(): SavedEveryone {
    return { latest: [...this.latest.entries()], isDown: this.isDown };
  }

  restore({ latest, isDown }: SavedEveryone): void {
    this.latest = new RecentMap(recentTenants);
    for (const [tenant, isCollapsed] of latest) this.latest.set(tenant, isCollapsed);
    this.isDown = isDown;
  }
}
