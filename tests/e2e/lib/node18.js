// SPDX-License-Identifier: MIT
// Node 18 keeps WebCrypto out of the global scope, where the SDKs look for it.
'use strict';

if (globalThis.crypto === undefined)
  globalThis.crypto = require('crypto').webcrypto;
