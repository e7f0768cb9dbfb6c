// SPDX-License-Identifier: MIT
// node with_azurite.js COMMAND [ARGUMENT ...]: runs the command while an
// Azurite of its own is up; TABLEWARD_AZURITE is its connection string.
'use strict';

const {spawnSync} = require('child_process');
const {Azurite, connection_string} = require('./lib/azurite');

async function main() {
  const azurite = await Azurite.start(process.env.E2E_MODULES);
  const {status} = spawnSync(process.argv[2], process.argv.slice(3), {
    stdio: 'inherit',
    env: {
      ...process.env,
      TABLEWARD_AZURITE: connection_string(azurite.account(), azurite.key,
          azurite.table_port, azurite.queue_port),
    },
  });
  await azurite.stop();
  process.exit(status === null ? 1 : status);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
