// The service worker: keeps the small files of the app, so that it starts without a network.
// The large ones are kept by js/model.js. files.js, which the export writes, lists them.

/* global FILES */
importScripts("files.js");

const PREFIX = `cbcl-shell:${self.registration.scope}:`;
const NAME = `${PREFIX}${FILES.version}`;

async function install() {
  const cache = await caches.open(NAME);
  await cache.addAll(FILES.small.map((file) => new Request(file, { cache: "reload" })));
  await self.skipWaiting();
}

async function activate() {
  for (const name of await caches.keys()) {
    if (name.startsWith(PREFIX) && name !== NAME) await caches.delete(name);
  }
  await self.clients.claim();
}

async function answer(request) {
  return (await caches.match(request, { ignoreSearch: true })) ?? fetch(request);
}

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));
self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(self.registration.scope)) {
    event.respondWith(answer(event.request));
  }
});
