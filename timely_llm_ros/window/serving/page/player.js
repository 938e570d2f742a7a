// Plays recordings, one or two beside each other, at any speed, forwards and back. Each is put together from its events
// up to the present moment, as the fleet itself would be.
import { Fleet } from './fleet.js';

const BEFORE_S = 1.5;

export class Player {
  constructor(recordings) {
    this.recordings = recordings.map((events) => {
      const begun = events.find((event) => event.what === 'accepted') || events[0];
      const start = begun ? begun.t - BEFORE_S : 0;
      return { events, start, fleet: new Fleet(start), next: 0 };
    });
    this.duration = Math.max(1, ...this.recordings.map(({ events, start }) => (events.length ? events[events.length - 1].t - start : 0)));
    Object.assign(this, { position: 0, rate: 1, playing: true, last: performance.now() });
  }

  // Moves on by the time that has passed, and brings every fleet to where it was then.
  step() {
    const now = performance.now();
    if (this.playing) this.position = Math.min(this.duration, this.position + (now - this.last) / 1000 * this.rate);
    this.last = now;
    if (this.position >= this.duration) this.playing = false;
    for (const one of this.recordings) {
      const until = one.start + this.position;
      if (one.next && one.events[one.next - 1].t > until) Object.assign(one, { fleet: new Fleet(one.start), next: 0 });
      while (one.next < one.events.length && one.events[one.next].t <= until) one.fleet.apply(one.events[one.next++]);
    }
  }

  now(number) {
    return this.recordings[number].start + this.position;
  }

  seek(position) {
    this.position = Math.min(this.duration, Math.max(0, position));
  }

  toggle() {
    if (this.position >= this.duration) this.position = 0;
    this.playing = !this.playing;
  }
}
