-- What a user does in Neovim, key by key as far as there are functions for the keys. Every step waits for what the
-- user would wait to see. Answers in JSON, in the file that FORWARDLENS_ANSWER names; FORWARDLENS_LINE is the line of
-- the forward, counted from 1, and the line below it is the costly one.
local line = tonumber(vim.env.FORWARDLENS_LINE)
local answer = {}

local function lens_titles()
  return vim.tbl_map(function(lens)
    return lens.command.title
  end, vim.lsp.codelens.get(0))
end

local function wait_for(what, condition)
  if not vim.wait(60000, condition, 20) then
    error("waited in vain for " .. what .. "; the lenses say " .. table.concat(lens_titles(), ", "))
  end
end

-- A menu of choices: the first whose title has the text is taken, and the titles are kept.
local function choose(text)
  local menu = { titles = {} }
  vim.ui.select = function(items, options, done)
    local chosen
    for _, item in ipairs(items) do
      local title = options.format_item(item)
      table.insert(menu.titles, title)
      chosen = chosen or (string.find(title, text, 1, true) and item)
    end
    done(chosen or nil)
  end
  return menu
end

local function has(titles, text)
  for _, title in ipairs(titles) do
    if string.find(title, text, 1, true) then
      return true
    end
  end
  return false
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n"
end

local function floating_text()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= "" then
      local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
      return table.concat(lines, "\n")
    end
  end
end

local function session()
  wait_for("the server", function()
    local client = (vim.lsp.get_clients or vim.lsp.get_active_clients)()[1]
    return client and client.initialized and vim.lsp.buf_is_attached(0, client.id)
  end)
  vim.lsp.codelens.refresh()
  wait_for("the lenses", function()
    return has(lens_titles(), "Profile this forward()")
  end)
  answer.lenses = lens_titles()

  vim.api.nvim_win_set_cursor(0, { line, 0 })
  choose("Profile this forward()")
  vim.lsp.codelens.run()
  wait_for("the result above the forward", function()
    return has(lens_titles(), " · ")
  end)
  answer.lenses_after = lens_titles()

  answer.diagnostics = vim.tbl_map(function(found)
    return { line = found.lnum, column = found.col, code = found.code, source = found.source }
  end, vim.diagnostic.get(0))

  vim.api.nvim_win_set_cursor(0, { line + 1, 0 })
  vim.lsp.buf.hover()
  wait_for("the hover", floating_text)
  answer.hover = floating_text()

  if vim.lsp.inlay_hint then
    wait_for("the hints", function()
      return #vim.lsp.inlay_hint.get({ bufnr = 0 }) > 0
    end)
    answer.hints = vim.tbl_map(function(hint)
      return { line = hint.inlay_hint.position.line, label = hint.inlay_hint.label }
    end, vim.lsp.inlay_hint.get({ bufnr = 0 }))
  end

  local before, menu = text(), choose("outputs equal")
  vim.lsp.buf.code_action()
  wait_for("the fix", function()
    return text() ~= before
  end)
  answer.actions, answer.fixed = menu.titles, text()
end

local done, problem = xpcall(session, debug.traceback)
answer.problem = not done and problem or nil
answer.messages = vim.fn.execute("messages")
vim.fn.writefile({ vim.fn.json_encode(answer) }, vim.env.FORWARDLENS_ANSWER)
vim.cmd("qall!")
