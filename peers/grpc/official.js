// The official Node.js client: node official.js HOST:PORT ROW ...  See official.py.

const { Producer, SimpleConsumer, PushConsumer, ConsumeResult } = require('rocketmq-client-nodejs');
const { randomUUID } = require('node:crypto');

const [endpoints, ...wanted] = process.argv.slice(2);
const WITHIN_MS = 60000;
const RUN = randomUUID().slice(0, 8);
const sleep = ms => new Promise(done => setTimeout(done, ms));

function message(topic, body, more = {}) {
  return {
    topic, body: Buffer.from(body), tag: 'tag', keys: [`key-${body}`],
    properties: new Map([['property', 'value']]), ...more,
  };
}

async function producer(topic, checker) {
  const made = new Producer({ endpoints, namespace: '', topics: [topic], checker });
  await made.startup();
  return made;
}

async function reader(topic) {
  const consumer = new SimpleConsumer({
    consumerGroup: `grpc-${randomUUID()}`, endpoints, namespace: '',
    subscriptions: new Map().set(topic, '*'), awaitDuration: 5000,
  });
  await consumer.startup();
  await consumer.receive(1, 15000);
  return consumer;
}

async function until(consumer, bodies) {
  const found = [];
  const deadline = Date.now() + WITHIN_MS;
  while (!bodies.every(body => found.includes(body))) {
    if (Date.now() > deadline) throw new Error(`only ${found} of ${bodies}`);
    for (const each of await consumer.receive(16, 15000)) {
      found.push(each.body.toString());
      if (each.tag !== 'tag') throw new Error(`tag ${each.tag}`);
      await consumer.ack(each);
    }
  }
  return found.filter(body => bodies.includes(body));
}

const ROWS = {
  async simple() {
    const bodies = Array.from({ length: 10 }, (_, number) => `${RUN}-${number}`);
    const [read, write] = [await reader('grpc-normal'), await producer('grpc-normal')];
    for (const body of bodies) await write.send(message('grpc-normal', body));
    await until(read, bodies);
    await read.shutdown();
    await write.shutdown();
  },
  async fifo() {
    const bodies = Array.from({ length: 20 }, (_, number) => `${RUN}-fifo-${number}`);
    const [read, write] = [await reader('grpc-fifo'), await producer('grpc-fifo')];
    for (const body of bodies) {
      await write.send(message('grpc-fifo', body, { messageGroup: 'one' }));
    }
    const found = await until(read, bodies);
    if (String(found) !== String(bodies)) throw new Error(`in the order ${found}`);
    await read.shutdown();
    await write.shutdown();
  },
  async delay() {
    const body = `${RUN}-delay`;
    const [read, write] = [await reader('grpc-delay'), await producer('grpc-delay')];
    const due = Date.now() + 4000;
    await write.send(message('grpc-delay', body, { deliveryTimestamp: new Date(due) }));
    await until(read, [body]);
    if (Date.now() < due - 500) throw new Error('too early');
    await read.shutdown();
    await write.shutdown();
  },
  async transaction() {
    const [yes, no] = [`${RUN}-yes`, `${RUN}-no`];
    const read = await reader('grpc-transaction');
    const write = await producer('grpc-transaction', { check: async () => 1 });
    const rolledBack = write.beginTransaction();
    await write.send(message('grpc-transaction', no), rolledBack);
    await rolledBack.rollback();
    const committed = write.beginTransaction();
    await write.send(message('grpc-transaction', yes), committed);
    await committed.commit();
    await until(read, [yes]);
    await read.shutdown();
    await write.shutdown();
  },
  async orphan() {
    const body = `${RUN}-orphan`;
    const read = await reader('grpc-transaction');
    const write = await producer('grpc-transaction', { check: async () => 1 });
    await write.send(message('grpc-transaction', body), write.beginTransaction());
    await until(read, [body]);
    await read.shutdown();
    await write.shutdown();
  },
  async push() {
    const bodies = Array.from({ length: 10 }, (_, number) => `${RUN}-push-${number}`);
    const found = new Set();
    const consumer = new PushConsumer({
      consumerGroup: `grpc-${randomUUID()}`, endpoints, namespace: '',
      subscriptions: new Map().set('grpc-normal', '*'),
      messageListener: {
        async consume(received) { found.add(received.body.toString()); return ConsumeResult.SUCCESS; },
      },
    });
    await consumer.startup();
    const write = await producer('grpc-normal');
    await sleep(3000);
    for (const body of bodies) await write.send(message('grpc-normal', body));
    const deadline = Date.now() + WITHIN_MS;
    while (!bodies.every(body => found.has(body))) {
      if (Date.now() > deadline) throw new Error(`only ${[...found]}`);
      await sleep(50);
    }
    await consumer.shutdown();
    await write.shutdown();
  },
};

(async () => {
  for (const row of wanted.length ? wanted : Object.keys(ROWS)) {
    const began = Date.now();
    let detail = '';
    try {
      await ROWS[row]();
    } catch (error) {
      detail = String(error);
    }
    console.log(`{"feature":${JSON.stringify(row)},"ok":${!detail},"ms":${Date.now() - began},"detail":${JSON.stringify(detail)}}`);
  }
  process.exit(0);
})();
