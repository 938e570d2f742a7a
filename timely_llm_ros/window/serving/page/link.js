// The connection to the server: comes back by itself, and knows the server's clock.

const WRONG_TOKEN = 4401, AGAIN_MS = [300, 600, 1200, 2500];

export class Link {
  constructor({ onHello, onEvents, onState }) {
    this.handlers = { onHello, onEvents, onState };
    this.asked = new Map();
    this.number = 0;
    this.failures = 0;
    this.ahead = null;
    this.heard = performance.now();
    this.#open();
    setInterval(() => this.#check(), 1000);
  }

  // The fleet's time now (s); null before it is known.
  now() {
    return this.ahead === null ? null : performance.now() / 1000 + this.ahead;
  }

  // Asks for something; `onAnswer` is called with each answer.
  ask(request, onAnswer) {
    if (!this.ready) {
      onAnswer({ error: 'not connected' });
      return;
    }
    const key = String(this.number += 1);
    this.asked.set(key, onAnswer);
    if (this.asked.size > 500) this.asked.delete(this.asked.keys().next().value);
    this.socket.send(JSON.stringify({ ...request, key }));
  }

  get ready() {
    return this.socket.readyState === WebSocket.OPEN && this.greeted;
  }

  #open() {
    const token = new URLSearchParams(location.hash.slice(1)).get('token') || '';
    const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
    this.greeted = false;
    this.socket = new WebSocket(`${scheme}//${location.host}/socket`);
    this.socket.addEventListener('open', () => this.socket.send(JSON.stringify({ token })));
    this.socket.addEventListener('message', (message) => this.#take(JSON.parse(message.data)));
    this.socket.addEventListener('close', (event) => this.#closed(event));
  }

  #take(message) {
    this.heard = performance.now();
    if (message.now !== undefined) {
      const ahead = message.now - performance.now() / 1000;
      // What was longest under way makes the fleet's clock look late; a clock that was set counts at once.
      if (this.ahead === null || message.hello || Math.abs(ahead - this.ahead) > 1) this.ahead = ahead;
      else this.ahead = Math.max(ahead, this.ahead - 0.001);
    }
    if (message.hello) {
      this.greeted = true;
      this.failures = 0;
      this.handlers.onHello(message.hello);
      this.handlers.onState('live', '');
    }
    if (message.events) this.handlers.onEvents(message.events);
    if (message.answer) this.asked.get(message.key)?.(message.answer);
  }

  #closed(event) {
    this.greeted = false;
    if (event.code === WRONG_TOKEN) {
      this.handlers.onState('refused', 'The token is not that of this window: open the address that it printed.');
      return;
    }
    this.handlers.onState('lost', event.reason || 'The window\u2019s server does not answer; trying again.');
    setTimeout(() => this.#open(), AGAIN_MS[Math.min(this.failures, AGAIN_MS.length - 1)]);
    this.failures += 1;
  }

  #check() {
    // A server tells the time each second.
    if (this.ready && performance.now() - this.heard > 4000) this.handlers.onState('silent', 'Nothing was heard for some seconds.');
    else if (this.ready) this.handlers.onState('live', '');
  }
}
