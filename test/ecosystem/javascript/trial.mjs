// Objects, an informer, patches; logs and exec of a real container.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const namespace = 'default';
let checks = 0;
const check = (got, want, what) => (assert.deepEqual(got, want, what), checks++);

// within waits for what a promise or a stream brings, with an end.
const within = (what, start) => new Promise((done, fail) => {
  const timer = setTimeout(() => fail(new Error(`not within a minute: ${what}`)), 60_000);
  start((value) => (clearTimeout(timer), done(value)), fail);
});

const seen = [];
const informer = k8s.makeInformer(config, '/api/v1/namespaces/default/configmaps', () =>
  core.listNamespacedConfigMap({ namespace, labelSelector: 'of=trial' }), 'of=trial');
let heard = () => {};
for (const event of ['add', 'update', 'delete']) {
  informer.on(event, (o) => (seen.push(`${event} ${o.metadata.name} ${o.data.n}`), heard()));
}
informer.on('error', (e) => seen.push(`error ${e}`));
await informer.start();
const map = (n) => ({ metadata: { name: 'one', labels: { of: 'trial' } }, data: { n } });
await core.createNamespacedConfigMap({ namespace, body: map('1') });
await core.patchNamespacedConfigMap({ name: 'one', namespace, body: [{ op: 'replace', path: '/data/n', value: '2' }] },
  k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.JsonPatch));
await core.patchNamespacedConfigMap({ name: 'one', namespace, fieldManager: 'trial', force: true,
  body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'one' }, data: { n: '3' } } },
  k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply));
check((await core.readNamespacedConfigMap({ name: 'one', namespace })).data, { n: '3' }, 'applied');
await core.deleteNamespacedConfigMap({ name: 'one', namespace });
await within('the informer hears of all', (done) => { heard = () => seen.length >= 4 && done(); heard(); });
check(seen, ['add one 1', 'update one 2', 'update one 3', 'delete one 3'], 'informer');
await informer.stop();
await assert.rejects(core.readNamespacedConfigMap({ name: 'one', namespace }), (e) => e.code === 404);

const labels = { app: 'web' };
await apps.createNamespacedDeployment({ namespace, body: { metadata: { name: 'web' }, spec: { replicas: 1, selector: { matchLabels: labels },
  template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'nginx:1' }] } } } } });
const pod = await within('a pod is ready', async (done, fail) => {
  const watch = new k8s.Watch(config);
  const ctl = await watch.watch('/api/v1/namespaces/default/pods', { labelSelector: 'app=web' }, (_, p) => {
    if (p.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True')) (ctl.abort(), done(p.metadata.name));
  }, (e) => e && e.name !== 'AbortError' && fail(e));
});
const run = (command) => within(`exec of ${command}`, (done, fail) => {
  const out = new PassThrough();
  let text = '';
  out.on('data', (d) => (text += d));
  new k8s.Exec(config).exec(namespace, pod, 'web', command, out, out, null, false, (status) => done([text, status.status])).catch(fail);
});
check(await run(['echo', 'it loops']), ['it loops\n', 'Success'], 'exec');
check((await run(['sh', '-c', 'exit 3']))[1], 'Failure', 'exit code');
await run(['wget', '-qO-', 'http://127.0.0.1/']);
check(await within('the log', async (done) => {
  const out = new PassThrough();
  const follow = await new k8s.Log(config).log(namespace, pod, 'web', out, { follow: true });
  out.on('data', (d) => String(d).includes('GET / ') && (follow.abort(), done('GET /')));
}), 'GET /', 'log');
check((await core.listNode()).items.length, 1, 'nodes');
console.log(`${checks} checks`);
process.exit(0);
