"""C801 (after yusanshi/news-recommendation, src/model/NRMS and NAML): the news encoder runs once per clicked article."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C801",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [39, 45],
    "fix": "encode_all_articles_at_once",
    "auto_fix_safe": True,
    "why": "articles do not depend on each other and nothing in the encoder is random; one look-up of (B*N, L) ids is exact",
    "hot_share_cpu": 0.91,
    "speedup_cpu": 2.52,
}


class AdditiveAttention(nn.Module):
    def __init__(self, query_dim, dim):
        super(AdditiveAttention, self).__init__()
        self.linear = nn.Linear(dim, query_dim)
        self.query = nn.Parameter(torch.empty(query_dim).uniform_(-0.1, 0.1))

    def forward(self, x):
        weights = F.softmax(torch.tanh(self.linear(x)) @ self.query, dim=1)
        return torch.bmm(weights.unsqueeze(1), x).squeeze(1)


class NewsRec(nn.Module):
    def __init__(self, num_words=4000, dim=40, query_dim=24):
        super(NewsRec, self).__init__()
        self.word_embedding = nn.Embedding(num_words, dim, padding_idx=0)
        self.title_attention = AdditiveAttention(query_dim, dim)
        self.user_attention = AdditiveAttention(query_dim, dim)

    def encode_news(self, title):
        # title: batch_size, num_words_title
        title_vector = self.word_embedding(title)  # HOT
        return self.title_attention(title_vector)

    def forward(self, candidate, clicked):
        candidate_vector = self.encode_news(candidate)
        # batch_size, num_clicked_news_a_user, word_embedding_dim
        clicked_vector = torch.stack([self.encode_news(x) for x in clicked.unbind(dim=1)], dim=1)  # HOT
        user_vector = self.user_attention(clicked_vector)
        return torch.bmm(user_vector.unsqueeze(1), candidate_vector.unsqueeze(2)).flatten()


class NewsRecFixed(NewsRec):
    def forward(self, candidate, clicked):
        candidate_vector = self.encode_news(candidate)
        clicked_vector = self.encode_news(clicked.flatten(0, 1)).unflatten(0, clicked.shape[:2])
        user_vector = self.user_attention(clicked_vector)
        return torch.bmm(user_vector.unsqueeze(1), candidate_vector.unsqueeze(2)).flatten()


def build():
    torch.manual_seed(0)
    return NewsRec(), (torch.randint(0, 4000, (8, 14)), torch.randint(0, 4000, (8, 50, 14)))


def build_fixed():
    slow, inputs = build()
    fast = NewsRecFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
